"""The scripted teacher: it knows all of a drawn pair, looks as a judge does, and writes what a judge should write."""
