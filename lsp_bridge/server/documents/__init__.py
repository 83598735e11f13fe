"""Documents that are open in attached editors, and changes made in them."""
