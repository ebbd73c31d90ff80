"""The runs of one folder, listed on the page: an evaluation, or any traces. Each opens in the ordinary viewer."""
