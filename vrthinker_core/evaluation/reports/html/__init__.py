"""What reports are made of: escaped elements, the page around them, tables that sort, and plots as SVG."""
