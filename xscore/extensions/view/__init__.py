"""Every turn in a browser, behind one small server on this machine that only its own link opens."""
