"""From records to what people look at: tables, figures, a web page, and the results page of the documentation."""
