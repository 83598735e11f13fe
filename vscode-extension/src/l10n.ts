/** Translation for the host and both webviews, shared with the web page's modules. */
export { plural, setCatalogue, t } from "../../daemon/api/page/l10n.js";
