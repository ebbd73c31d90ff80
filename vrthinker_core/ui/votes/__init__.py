"""The person is a judge as well: their vote on a run, and what stays hidden until they have voted."""
