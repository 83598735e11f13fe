// What the tests of accessibility do within a page; `accessibility.py` puts this and axe into it.
globalThis.accessibility = {
    look: () => ({
        style: document.documentElement.style.cssText,
        classes: document.body.className,
        data: {...document.body.dataset},
    }),
    wear: ({style, classes, data}) => {
        document.documentElement.style.cssText = style;
        document.body.className = classes;
        Object.assign(document.body.dataset, data);
    },
    // VS Code paints what is below the page outside of its frame, and axe gives up where there is a gradient.
    ground: (colour) => {
        document.documentElement.style.backgroundColor = `var(${colour})`;
        for (const body of document.querySelectorAll(".approval-body")) body.style.background = "var(--ground)";
    },
    // A row of a tree is walked to and never called by its label: its name may say in words what it shows by signs.
    axeFindings: (rules) => axe.run(document, {
        resultTypes: ["violations"], iframes: false, ...(rules ? {runOnly: {type: "rule", values: rules}} : {}),
    }).then(({violations}) => violations.flatMap(({id, impact, help, nodes}) => nodes
        .filter((node) => id !== "label-content-name-mismatch" || !node.html.includes('role="treeitem"')).map((node) =>
        `${impact} ${id}: ${help}: ${node.target} ${node.html.slice(0, 160)} ${
            [...node.any, ...node.all, ...node.none].map((one) => one.message).slice(0, 2).join("; ")}`))),
    // What scrolls by itself may be wider than the page.
    cutOff: () => {
        const found = [];
        const page = document.documentElement;
        const name = (element) => `${element.tagName.toLowerCase()}.${element.className} "${
            (element.getAttribute("aria-label") || element.textContent || "").trim().slice(0, 40)}"`;
        for (const one of [page, document.body, ...document.querySelectorAll("#app, header, main, footer, .scroller, .approval-body")])
            if (one.scrollWidth > one.clientWidth) found.push(`${name(one)} is ${one.scrollWidth} wide in ${one.clientWidth}`);
        const look = "button, input, textarea, select, .remark, .badge, .counts, .count, .chip, .demo, h2, [role=treeitem]";
        for (const element of document.querySelectorAll(look)) {
            if (!element.checkVisibility({visibilityProperty: true})) continue;
            if (element.closest(".only-spoken, .diff, .io, pre, .table, .board, .code")) continue;
            const box = element.getBoundingClientRect();
            if (box.width === 0 && element.textContent === "") continue;
            if (box.width < 8) found.push(`${name(element)} is ${box.width} wide`);
            if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(`${name(element)} is outside of the page`);
            const scrolls = element.closest(".scroller, .approval-body, .plan-tree, .queue, .inbox, .meter, .extra");
            if (!scrolls && (box.top < -0.5 || box.bottom > innerHeight + 0.5))
                found.push(`${name(element)} is above or below the page`);
            for (let around = element.parentElement; around; around = around.parentElement) {
                const edge = around.getBoundingClientRect();
                if (getComputedStyle(around).overflowX !== "visible" && (box.left < edge.left - 0.5 || box.right > edge.right + 0.5)) {
                    found.push(`${name(element)} is cut off by ${name(around).slice(0, 40)}`);
                    break;
                }
            }
            const words = element.matches(".buttons > button, .remark, .badge, .counts, .count, .demo");
            if (words && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
                found.push(`the words of ${name(element)} are cut off`);
        }
        for (const file of document.querySelectorAll(".file")) {
            const text = document.createTreeWalker(file, NodeFilter.SHOW_TEXT);
            let last = null;
            while (text.nextNode()) last = text.currentNode;
            if (!last) continue;
            const end = document.createRange();
            end.setStart(last, Math.max(0, last.length - 3));
            end.setEnd(last, last.length);
            const [box, edge] = [end.getBoundingClientRect(), file.getBoundingClientRect()];
            if (box.left < edge.left - 1 || box.right > edge.right + 1) found.push(`the end of ${name(file)} is not seen`);
        }
        return found;
    },
    focused: () => {
        const element = document.activeElement;
        if (!element || element === document.body) return {name: "nothing", ring: true};
        const {outlineStyle, outlineWidth} = getComputedStyle(element);
        // The field one writes in is shown by the frame around it and its buttons.
        const box = element.matches(".composer textarea") ? getComputedStyle(element.closest(".composer")).borderTopColor : "";
        const colour = document.createElement("i");
        colour.style.color = "var(--vscode-focusBorder)";
        document.body.append(colour);
        const accent = getComputedStyle(colour).color;
        colour.remove();
        const label = element.labels?.[0]?.innerText;
        return {
            name: (element.getAttribute("aria-label") || label || element.textContent).trim(),
            ring: (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || box === accent,
        };
    },
    // What is put into a live region is what a screen reader says; moving and removing says nothing.
    listen: () => {
        globalThis.heard = [];
        const say = (node, text) => {
            const region = (node instanceof Element ? node : node.parentElement)?.closest("[aria-live]");
            if (region && region.ariaLive !== "off") globalThis.heard.push([region.ariaLive, text]);
        };
        new MutationObserver((records) => {
            for (const {type, addedNodes, target} of records) {
                if (type === "characterData") say(target, target.data);
                for (const node of addedNodes) say(target, node.textContent);
            }
        }).observe(document.body, {childList: true, characterData: true, subtree: true});
    },
    // Scrolls up; the milliseconds that each frame took.
    scroll: async (frames) => {
        const box = document.querySelector(".scroller");
        const took = [];
        let last = performance.now();
        for (let at = 0; at < frames; at++) {
            box.scrollTop -= 90;
            await new Promise((done) => requestAnimationFrame(done));
            took.push(performance.now() - last);
            last = performance.now();
        }
        return took;
    },
    // Notes how long it takes from a key to its letter on the page.
    watchKeys: () => {
        const {watched} = globalThis;
        globalThis.typed = [];
        globalThis.watched = true;
        if (watched) return;
        document.addEventListener("beforeinput", () => {
            const began = performance.now();
            requestAnimationFrame(() => setTimeout(() => globalThis.typed.push(performance.now() - began)));
        }, true);
    },
};
