"""Worker processes, which decode hostile files: the pool that starts them, the fork server, and how a parent holds one."""
