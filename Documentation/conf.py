# SPDX-License-Identifier: GPL-2.0
"""How Sphinx builds these documents, by `make docs`."""

project = "rsiw"
author = "The rsiw developers"
# Each page says its licence.
html_show_copyright = False

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
# Links to headings of a page, as forges make them.
myst_heading_anchors = 3
# Indented text is commands, output and tables.
highlight_language = "none"

html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "fixed_sidebar": True}
html_show_sourcelink = False

# Manual pages: the name, the section, and the line behind the name. The page is NAME.SECTION.md.
MAN_PAGES = [
    ("rsiw", 4, "software iWARP RDMA device on any Ethernet port"),
    ("rsiw-provider", 7, "user-space provider of rsiw for libibverbs"),
    ("rsiw.conf", 5, "links of rsiw that come back after a reboot"),
    ("rsiw-key", 8, "pre-shared keys for TLS on rsiw's connections"),
    ("rsiw-cdi", 8, "describe rsiw's devices for container engines"),
    ("rsiw-doctor", 8, "find out why RDMA over rsiw does not work"),
]
man_pages = [(f"{name}.{section}", name, line, author, section) for name, section, line in MAN_PAGES]
