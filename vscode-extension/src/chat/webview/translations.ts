/** Set the translations that the host put into the page; imported before all other modules. */
import { setCatalogue } from "../../l10n";

const block = document.getElementById("translations");
if (block) setCatalogue(JSON.parse(block.textContent ?? "{}") as Record<string, string>);
