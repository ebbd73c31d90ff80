"""What the server keeps: sessions, their runs in threads of their own, the waiting room, the loaded judges, saved runs."""
