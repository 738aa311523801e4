# SPDX-License-Identifier: GPL-2.0
"""rsiw-doctor: one module for each subject, a report, and the system that all of them look at."""
