"""What if: branches of the run that is shown, which stand beside their origin as long as the page is open."""
