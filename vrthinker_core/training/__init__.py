"""The drawn world, and the training stages that use it."""
