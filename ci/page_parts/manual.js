// Prism colours the whole page as soon as it is loaded, unless this comes before it.
window.Prism = { manual: true };
