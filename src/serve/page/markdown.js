'use strict';
/* ---- elements: text goes in as text only, never as HTML ------------------------------------------------------------- */

const $ = (selector, root = document) => root.querySelector(selector);

function el(tag, props = {}, ...kids) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(props)) {
        if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
        else if (k in e && k !== 'list') e[k] = v;
        else e.setAttribute(k, v);
    }
    e.append(...kids.filter(k => k !== null && k !== undefined && k !== false));
    return e;
}

function icon(name) {
    const ns = 'http://www.w3.org/2000/svg', svg = document.createElementNS(ns, 'svg'), use = document.createElementNS(ns, 'use');
    svg.setAttribute('class', 'i');
    use.setAttribute('href', '#i-' + name);
    svg.append(use);
    return svg;
}

const iconButton = (name, label, onclick) => el('button', { className: 'icon', type: 'button', title: label, 'aria-label': label, onclick }, icon(name));

let toastTimer;
function toast(text) {
    const t = $('#toast');
    t.textContent = text;
    t.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => { t.hidden = true; }, 3000);
}

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch { // pages that came by plain HTTP from another machine have no clipboard
        const area = el('textarea', { value: text });
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
    }
}

/* ---- Markdown: text → blocks → elements. What is not understood stays text. ------------------------------------------- */

const DEPTH = 10; // of quotes, lists and emphasis inside each other; deeper ones stay text
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$/, HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$/, RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}>[ ]?/, ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$/, DIVIDER = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

const isTable = (line, next) => line.includes('|') && next !== undefined && next.includes('-') && next.includes('|') && DIVIDER.test(next);
const startsBlock = (line, next) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || isTable(line, next);
const blank = line => line === undefined || line.trim() === '';

/* [{kind, raw, ...}]; raw tells whether a block has changed since it was drawn. */
function parseBlocks(lines) {
    const out = [];
    for (let i = 0, from; i < lines.length;) {
        if (blank(lines[i])) { i++; continue; }
        from = i;
        const block = readBlock(lines, i);
        i = block.next;
        block.raw = lines.slice(from, i).join('\n');
        out.push(block);
    }
    return out;
}

function readBlock(lines, i) {
    let m;
    const line = lines[i];
    if ((m = FENCE.exec(line))) {
        const end = new RegExp('^ {0,3}' + m[1][0] + '{' + m[1].length + ',}[ \\t]*$'), code = [];
        let k = i + 1;
        for (; k < lines.length && !end.test(lines[k]); k++) code.push(lines[k]);
        return { kind: 'code', lang: m[2], text: code.join('\n'), next: Math.min(k + 1, lines.length), open: k >= lines.length };
    }
    if ((m = HEADING.exec(line))) return { kind: 'heading', level: m[1].length, text: m[2], next: i + 1 };
    if (RULE.test(line)) return { kind: 'rule', next: i + 1 };
    if (QUOTE.test(line)) {
        const inner = [];
        let k = i;
        for (; k < lines.length && QUOTE.test(lines[k]); k++) inner.push(lines[k].replace(QUOTE, ''));
        return { kind: 'quote', lines: inner, next: k };
    }
    if (isTable(line, lines[i + 1])) {
        let k = i + 2;
        while (k < lines.length && !blank(lines[k]) && lines[k].includes('|')) k++;
        return { kind: 'table', rows: lines.slice(i, k), next: k };
    }
    if (ITEM.test(line)) return readList(lines, i);
    const text = [];
    let k = i;
    do text.push(lines[k++].trimStart()); while (k < lines.length && !blank(lines[k]) && !startsBlock(lines[k], lines[k + 1]));
    return { kind: 'text', text: text.join('\n'), next: k };
}

function readList(lines, i) {
    const first = ITEM.exec(lines[i]), ordered = /\d/.test(first[2]), indent = first[1].length, items = [];
    let k = i;
    while (k < lines.length) {
        const m = ITEM.exec(lines[k]);
        if (!m || m[1].length < indent || m[1].length > indent + 3 || /\d/.test(m[2]) !== ordered || RULE.test(lines[k])) break;
        const width = m[1].length + m[2].length + Math.min(m[3].length || 1, 4), item = [m[4]];
        for (k++; k < lines.length; k++) {
            const lead = lines[k].length - lines[k].trimStart().length;
            if (blank(lines[k])) {
                const after = lines[k + 1];
                if (blank(after) || after.length - after.trimStart().length < Math.min(width, indent + 2)) break;
                item.push('');
            } else if (lead >= Math.min(width, indent + 2)) {
                item.push(lines[k].slice(Math.min(lead, width)));
            } else if (startsBlock(lines[k], lines[k + 1]) || blank(lines[k - 1])) {
                break;
            } else {
                item.push(lines[k].trimStart());
            }
        }
        items.push(item);
        let next = k;
        while (next < lines.length && blank(lines[next])) next++;
        if (next > k && next < lines.length && ITEM.test(lines[next])) k = next; // items with a blank line between
    }
    return { kind: 'list', ordered, start: parseInt(first[2], 10) || 1, items, next: k };
}

const cells = row => row.trim().replace(/^\||(?<!\\)\|$/g, '').split(/(?<!\\)\|/).map(c => c.trim().replace(/\\\|/g, '|'));

function drawTable(rows) {
    const align = cells(rows[1]).map(c => (/^:.*:$/.test(c) ? 'center' : c.endsWith(':') ? 'right' : ''));
    const row = (line, tag) => el('tr', {}, ...cells(line).slice(0, align.length).map((c, i) => {
        const cell = el(tag, { className: align[i] || '' });
        inline(c, cell, 0);
        return cell;
    }));
    return el('div', { className: 'tablebox' }, el('table', {}, el('thead', {}, row(rows[0], 'th')), el('tbody', {}, ...rows.slice(2).map(r => row(r, 'td')))));
}

function drawCode(block) {
    const code = el('code'), button = el('button', { type: 'button', textContent: 'Copy', onclick: async () => {
        await copy(block.text);
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    } });
    highlight(block.text, block.lang.toLowerCase(), code);
    return el('div', { className: 'block' }, el('header', {}, el('span', {}, block.lang || 'text'), button), el('pre', { tabIndex: 0 }, code));
}

function drawList(block, depth) {
    const list = el(block.ordered ? 'ol' : 'ul', block.ordered && block.start !== 1 ? { start: block.start } : {});
    for (const item of block.items) {
        const task = /^\[([ xX])\] +/.exec(item[0]), li = el('li');
        if (task) {
            li.className = 'task';
            li.append(el('input', { type: 'checkbox', checked: task[1] !== ' ', disabled: true }), ' ');
            item[0] = item[0].slice(task[0].length);
        }
        const blocks = parseBlocks(item), tight = !item.includes('');
        for (const b of blocks) {
            if (tight && b.kind === 'text') inline(b.text, li, 0);
            else li.append(drawBlock(b, depth + 1));
        }
        list.append(li);
    }
    return list;
}

function drawBlock(b, depth) {
    const text = (tag, t) => { const e = el(tag); inline(t, e, 0); return e; };
    if (depth > DEPTH) return el('p', {}, b.raw);
    switch (b.kind) {
    case 'code': return drawCode(b);
    case 'heading': return text('h' + b.level, b.text);
    case 'rule': return el('hr');
    case 'quote': return el('blockquote', {}, ...parseBlocks(b.lines).map(x => drawBlock(x, depth + 1)));
    case 'table': return drawTable(b.rows);
    case 'list': return drawList(b, depth);
    default: return text('p', b.text);
    }
}

/* Draws text into box; blocks that have not changed keep their elements (and the reader's selection). */
function markdown(box, text) {
    const blocks = parseBlocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n')), old = box.drawn || [];
    let same = 0;
    while (same < blocks.length && same < old.length && blocks[same].raw === old[same]) same++;
    while (box.childNodes.length > same) box.lastChild.remove();
    for (const b of blocks.slice(same)) box.append(drawBlock(b, 0));
    box.drawn = blocks.map(b => b.raw);
}

const safeLink = url => (/^(?:https?:\/\/|mailto:)[^\s<>"]+$/i.test(url) ? url : null);
const link = (url, label) => el('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, label);
const MARKS = [['**', 'strong'], ['__', 'strong'], ['~~', 's'], ['*', 'em'], ['_', 'em']];
const SPECIAL = /[\\`*_~[!<\nh]/g;

/* Emphasis at i: the element and where it ends, or null. A few candidates for its end are tried, so that no text takes long. */
function emphasis(s, i, depth) {
    for (const [mark, tag] of MARKS) {
        if (!s.startsWith(mark, i)) continue;
        const n = mark.length;
        if (/\s|^$/.test(s.charAt(i + n)) || (mark[0] === '_' && /\w/.test(s.charAt(i - 1)))) continue;
        for (let to = s.indexOf(mark, i + n + 1), tries = 0; to > 0 && tries < 8; to = s.indexOf(mark, to + 1), tries++) {
            const after = s.charAt(to + n);
            if (/\s/.test(s[to - 1]) || (n === 1 && (after === mark || s[to - 1] === mark)) || (mark[0] === '_' && /\w/.test(after))) continue;
            if (n === 2 && after === mark[0]) to++; // ***both***: the longer run's end belongs to the outer mark
            const e = el(tag);
            inline(s.slice(i + n, to), e, depth + 1);
            return { node: e, to: to + n };
        }
    }
    return null;
}

function codeSpan(s, i) {
    let n = 1;
    while (s[i + n] === '`') n++;
    for (let to = s.indexOf('`'.repeat(n), i + n), tries = 0; to > 0 && tries < 8; to = s.indexOf('`'.repeat(n), to + 1), tries++) {
        if (s[to + n] === '`' || s[to - 1] === '`') continue;
        return { node: el('code', {}, s.slice(i + n, to).replace(/^ (.+) $/, '$1')), to: to + n };
    }
    return { node: s.slice(i, i + n), to: i + n };
}

function bracketLink(s, i, depth) {
    const at = s[i] === '!' ? i + 1 : i, rest = s.slice(at, at + 2400), m = /^\[([^[\]]{0,400})\]\(\s*<?([^()\s<>]{1,1500}(?:\([^()\s<>]{0,200}\))?[^()\s<>]{0,100})>?(?:\s+"[^"\n]{0,200}")?\s*\)/.exec(rest);
    const url = m && safeLink(m[2]);
    if (!url) return null;
    const a = link(url, ''); // a picture becomes a link: nothing is fetched
    inline(m[1] || url, a, depth + 1);
    return { node: a, to: at + m[0].length };
}

function inlineAt(s, i, depth) {
    const c = s[i];
    if (c === '\n') return { node: / {2}$/.test(s.slice(Math.max(0, i - 2), i)) || s[i - 1] === '\\' ? el('br') : '\n', to: i + 1 };
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(s.charAt(i + 1))) return { node: s[i + 1], to: i + 2 };
    if (c === '\\' && s[i + 1] === '\n') return { node: el('br'), to: i + 2 };
    if (c === '`') return codeSpan(s, i);
    if (c === '[' || (c === '!' && s[i + 1] === '[')) return bracketLink(s, i, depth);
    if (c === '<') {
        const m = /^<br ?\/?>|^<((?:https?:\/\/|mailto:)[^\s<>]{1,1500})>/i.exec(s.slice(i, i + 1510));
        return m && { node: m[1] ? link(m[1], m[1]) : el('br'), to: i + m[0].length };
    }
    if (c === 'h') {
        const m = /\w/.test(s.charAt(i - 1)) ? null : /^https?:\/\/[^\s<>"`]{1,1500}/.exec(s.slice(i, i + 1510));
        const url = m && m[0].replace(/[.,;:!?*_~'\]]+$/, '').replace(/^([^(]*)\).*$/, '$1');
        return url ? { node: link(url, url), to: i + url.length } : null;
    }
    return emphasis(s, i, depth);
}

function inline(s, into, depth) {
    let from = 0;
    if (depth <= DEPTH) {
        SPECIAL.lastIndex = 0;
        for (let m; (m = SPECIAL.exec(s));) {
            const got = inlineAt(s, m.index, depth);
            if (got) {
                if (m.index > from) into.append(s.slice(from, m.index));
                into.append(got.node);
                from = got.to;
            }
            SPECIAL.lastIndex = got ? got.to : m.index + (/[*_~]/.test(m[0]) && s[m.index + 1] === m[0] ? 2 : 1);
        }
    }
    if (from < s.length) into.append(s.slice(from));
}

/* ---- colours of code: comments, strings, numbers, keywords ------------------------------------------------------------- */

const KEYWORDS = new Set(('abstract alignas and any as assert async auto await begin bool boolean break byte case catch char class const constexpr continue crate def default ' +
    'defer del delete do done double echo elif else elsif end enum esac except export extends extern false fi final finally float fn for foreach from func function ' +
    'global go goto if impl implements import in include inline instanceof int interface is lambda let local long loop match mod module mut namespace ' +
    'new nil none nonlocal not null nullptr number of or override package pass private protected pub public raise register repeat require return self short ' +
    'signed sizeof static string struct super switch template then this throw throws trait true try type typedef typename typeof undefined union unsafe unsigned ' +
    'until unset use using var virtual void volatile when where while with yield None True False select insert update set values table create drop alter join ' +
    'left right inner outer on group by order having limit int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t').split(' '));
const STRINGS = '"(?:\\\\.|[^"\\\\\\n])*"?|\'(?:\\\\.|[^\'\\\\\\n])*\'?|`(?:\\\\.|[^`\\\\])*`?';
const REST = '|\\b\\d[\\w.]*|[A-Za-z_]\\w*|[^\\w"\'`#/<\\-]+|[^]';
const SLASH = '//[^\\n]*|/\\*[^]*?(?:\\*/|$)', HASH = '#[^\\n]*', DASH = '--[^\\n]*|/\\*[^]*?(?:\\*/|$)';
const FAMILIES = [[/^(?:py\w*|sh|bash|zsh|shell|console|rb|ruby|ya?ml|toml|r|perl|make\w*|docker\w*|ini|cmake|nix|elixir|conf)$/, HASH], [/^(?:sql|lua|haskell|hs|ada)$/, DASH],
    [/^(?:html|xml|svg|vue)$/, '<!--[^]*?(?:-->|$)']];

function highlight(text, lang, into) {
    if (!lang || /^(?:text|txt|plain\w*|markdown|md|output|log)$/.test(lang) || text.length > 60000) { into.append(text); return; }
    const comment = (FAMILIES.find(([re]) => re.test(lang)) || [null, SLASH])[1], anyCase = lang === 'sql';
    let plain = '';
    for (const [part] of text.matchAll(new RegExp('(?:' + comment + ')|' + STRINGS + REST, 'g'))) {
        const c = part[0], kind = part.length > 1 && /^(?:\/[/*]|#|--|<!)/.test(part) ? 't-c' : /["'`]/.test(c) ? 't-s' : /\d/.test(c) ? 't-n' :
            KEYWORDS.has(anyCase ? part.toLowerCase() : part) ? 't-k' : '';
        if (!kind) { plain += part; continue; }
        into.append(plain, el('span', { className: kind }, part));
        plain = '';
    }
    into.append(plain);
}
