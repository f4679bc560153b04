"""`fastloop compare`: what runs that differ in their seeds reach, and how sure that is."""
