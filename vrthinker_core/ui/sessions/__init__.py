"""Who is on the page: sessions, their runs in threads of their own, the waiting room, the judges, saved runs."""
