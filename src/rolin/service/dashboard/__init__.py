"""The dashboard: a page of HTML, CSS and plain JavaScript, which reads the API with the key of the user."""
