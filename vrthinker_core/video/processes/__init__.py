"""Worker processes for hostile files: pool, fork server and parent's handle."""
