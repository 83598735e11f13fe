/** Translation for the host and both webviews; the web page's modules, which the graph shares, use the same. */
export { plural, setCatalogue, t } from "../../daemon/api/page/l10n.js";
