"""What people are shown beside results: notes, paragraphs in terminals, pages in notebooks."""
