"""Show notes, paragraphs in terminals and pages in notebooks beside results."""
