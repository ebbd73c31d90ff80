"""What the page does when a person does something: a module for each part of it."""
