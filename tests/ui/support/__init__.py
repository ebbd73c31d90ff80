"""What the tests of the page share: clips, runs made by hand, saved examples, calls of the API."""
