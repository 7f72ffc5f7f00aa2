"""The pages: documents of the API go in, HTML comes out. Only charts and the review queue use a script."""
