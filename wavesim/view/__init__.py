"""Pictures of traces and descriptions: figures drawn with plotly, and small SVGs that need only Python."""
