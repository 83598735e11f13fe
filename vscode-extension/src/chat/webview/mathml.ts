/** The script that is loaded with the first formula. */
import temml from "temml";

globalThis.goalwrightMath = (source, display) => temml.renderToString(source, { displayMode: display, throwOnError: true, trust: false, maxExpand: 200 });
