"""The page: where everything stands, and what happens when its parts are used."""
