"""Who may have how much and who goes next. Imports only topology."""
