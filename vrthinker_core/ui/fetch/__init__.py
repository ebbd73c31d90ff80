"""Videos that arrive: uploads, and downloads from public web addresses."""
