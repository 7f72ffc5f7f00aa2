"""The pages. They turn documents of the API into HTML; only charts and the review queue use a script."""
