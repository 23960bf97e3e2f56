"""One module of handlers per page; `pages.HANDLERS` lists them all."""
