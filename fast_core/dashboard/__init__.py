"""The page that shows runs in the browser."""
