"""Videos from visitors: uploads, and downloads from public web addresses."""
