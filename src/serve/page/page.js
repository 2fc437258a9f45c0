/* ---- what the browser keeps: settings, and one entry for each conversation ---------------------------------------------- */

const PREFIX = 'ie.', FIELDS = [ // name, label, smallest, largest, step; empty: the server's default
    ['temperature', 'Temperature', 0, 5, 'any'], ['top_p', 'Top P', 0, 1, 'any'], ['top_k', 'Top K', 0, 1000, 1], ['min_p', 'Min P', 0, 1, 'any'],
    ['repeat_penalty', 'Repeat penalty', 0.1, 10, 'any'], ['presence_penalty', 'Presence penalty', -2, 2, 'any'], ['frequency_penalty', 'Frequency penalty', -2, 2, 'any'],
    ['max_tokens', 'Max tokens', 1, 1048576, 1], ['seed', 'Seed', 0, 9007199254740991, 1]];

function read(key, otherwise) {
    try { return JSON.parse(localStorage.getItem(PREFIX + key)) ?? otherwise; } catch { return otherwise; }
}

function write(key, value) {
    try { localStorage.setItem(PREFIX + key, JSON.stringify(value)); return true; } catch {
        toast('The browser has no room left: delete or export conversations');
        return false;
    }
}

const settings = { theme: '', key: '', thinking: '', system: '', ...read('settings', {}) };
const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
const newChat = () => ({ id: newId(), title: '', named: false, updated: Date.now(), system: settings.system, messages: [] });

/* Keeps what has a conversation's form: storage and imported files may hold anything. */
function clean(c) {
    const str = x => (typeof x === 'string' ? x : ''), num = x => (Number.isFinite(x) ? x : 0);
    if (!c || typeof c !== 'object' || !Array.isArray(c.messages) || !/^[a-z0-9]{1,32}$/.test(c.id)) return null;
    const messages = [];
    for (const m of c.messages) {
        if (m?.role === 'user') messages.push({ role: 'user', text: str(m.text) });
        if (m?.role !== 'assistant' || !Array.isArray(m.alts)) continue;
        const alts = m.alts.filter(a => a && typeof a === 'object').map(a => ({ text: str(a.text), think: str(a.think), thinkMs: num(a.thinkMs), error: str(a.error), cut: ['stop', 'length'].includes(a.cut) ? a.cut : '', stat: str(a.stat) }));
        if (alts.length) messages.push({ role: 'assistant', alts, at: Math.min(Math.max(0, num(m.at) | 0), alts.length - 1) });
    }
    return { id: c.id, title: str(c.title), named: !!c.named, updated: num(c.updated), system: str(c.system), used: num(c.used), messages };
}

let index = []; // [{id, title, updated}], newest first
function readIndex() {
    index = read('index', []);
    if (!Array.isArray(index)) index = [];
    index = index.filter(c => c && typeof c.id === 'string' && typeof c.title === 'string').sort((a, b) => b.updated - a.updated);
}

function keep(c, touch = true) {
    if (touch) c.updated = Date.now();
    readIndex();
    if (!write('c.' + c.id, c)) return;
    index = [{ id: c.id, title: c.title, updated: c.updated }, ...index.filter(x => x.id !== c.id)].sort((a, b) => b.updated - a.updated);
    write('index', index);
}

function forget(id) {
    runs.get(id)?.stop();
    localStorage.removeItem(PREFIX + 'c.' + id);
    readIndex();
    index = index.filter(x => x.id !== id);
    write('index', index);
}

/* ---- state ------------------------------------------------------------------------------------------------------------- */

const runs = new Map(); // conversation id → {stop, message, alt, progress, ...}: answers that are being written
let chat = newChat(), nCtx = 0, modelName = '';
const current = message => message.alts[message.at];

/* ---- the list of conversations -------------------------------------------------------------------------------------------- */

function age(time) {
    const day = 86400000, today = new Date().setHours(0, 0, 0, 0);
    return time >= today ? 'Today' : time >= today - day ? 'Yesterday' : time >= today - 7 * day ? 'Last seven days' : 'Older';
}

function drawChats() {
    const find = $('#find').value.trim().toLowerCase(), list = $('#list');
    const hit = c => !find || c.title.toLowerCase().includes(find) || (localStorage.getItem(PREFIX + 'c.' + c.id) || '').toLowerCase().includes(find);
    let group = '';
    list.replaceChildren();
    if (!index.length) list.append(el('li', { className: 'none' }, 'Conversations are kept in this browser only.'));
    for (const c of index.filter(hit)) {
        if (age(c.updated) !== group) list.append(el('li', { className: 'group' }, group = age(c.updated)));
        const li = el('li', { className: c.id === chat.id ? 'on' : '' });
        li.append(el('button', { className: 'open', type: 'button', title: c.title, onclick: () => show(c.id) }, c.title || 'New chat'),
            iconButton('edit', 'Rename', () => rename(li, c)),
            iconButton('bin', 'Delete', () => {
                if (!confirm('Delete "' + (c.title || 'New chat') + '"?')) return;
                forget(c.id);
                if (c.id === chat.id) show(null);
                else drawChats();
            }));
        list.append(li);
    }
}

function rename(li, c) {
    const input = el('input', { value: c.title, 'aria-label': 'Title' });
    const done = ok => {
        input.onblur = null;
        const full = c.id === chat.id ? chat : clean(read('c.' + c.id, null));
        if (ok && full && input.value.trim()) {
            full.title = input.value.trim().slice(0, 200);
            full.named = true;
            keep(full, false);
        }
        drawChats();
    };
    input.onkeydown = e => { if (e.key === 'Enter') done(true); else if (e.key === 'Escape') done(false); };
    input.onblur = () => done(true);
    li.replaceChildren(input);
    input.select();
    input.focus();
}

function show(id) {
    chat = (id && clean(read('c.' + id, null))) || newChat();
    const run = runs.get(chat.id);
    if (run) chat = run.chat; // its answer is still growing
    document.body.classList.remove('side-open');
    history.replaceState(null, '', chat.messages.length ? '#' + chat.id : location.pathname);
    $('#log').replaceChildren();
    drawAll();
    drawChats();
    toEnd();
    if (matchMedia('(hover: hover)').matches) $('#text').focus();
}

/* ---- messages -------------------------------------------------------------------------------------------------------------- */

/* An answer's thinking and text; models whose thinking comes within the text mark it by tags. */
function parts(alt) {
    const m = alt.think ? null : /^\s*<think>([^]*?)(?:<\/think>([^]*)|$)/.exec(alt.text);
    return m ? { think: m[1], text: m[2] ?? '', open: m[2] === undefined } : { think: alt.think, text: alt.text, open: !alt.text };
}

function drawAll() {
    const log = $('#log');
    $('#hello').hidden = chat.messages.length > 0;
    while (log.childNodes.length > chat.messages.length) log.lastChild.remove();
    chat.messages.forEach((m, i) => {
        const node = m.role === 'user' ? drawUser(m, i) : drawAnswer(m, i);
        if (log.childNodes[i]) log.childNodes[i].replaceWith(node);
        else log.append(node);
    });
    drawState();
}

function drawUser(m, i) {
    const node = el('article', { className: 'msg user', 'aria-label': 'You' });
    node.append(el('div', { className: 'text' }, m.text), el('div', { className: 'acts' }, iconButton('copy', 'Copy', () => copy(m.text).then(() => toast('Copied'))),
        iconButton('edit', 'Edit', () => edit(node, m, i))));
    return node;
}

/* Sending an edited message drops what came after it. */
function edit(node, m, i) {
    if (runs.has(chat.id)) return;
    const area = el('textarea', { value: m.text, 'aria-label': 'Edit message' });
    const send = () => {
        if (!area.value.trim()) return;
        chat.messages.length = i;
        ask(area.value.trim());
    };
    area.onkeydown = e => {
        if (e.key === 'Escape') drawAll();
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) send();
    };
    node.className = 'msg user editing';
    node.replaceChildren(area, el('div', { className: 'row' }, el('button', { type: 'button', className: 'plain', onclick: drawAll }, 'Cancel'),
        el('button', { type: 'button', className: 'solid', onclick: send }, 'Send')));
    area.style.height = Math.min(area.scrollHeight + 4, innerHeight / 2) + 'px';
    area.focus();
}

function drawAnswer(m, i) {
    const node = el('article', { className: 'msg bot', 'aria-label': 'Answer' });
    const think = el('details', { className: 'think', hidden: true }, el('summary', {}, icon('next'), el('span')), el('div', { className: 'md' }));
    node.append(think, el('div', { className: 'md answer' }), el('div', { className: 'more' }), el('div', { className: 'acts' }));
    fill(node, m, i);
    return node;
}

/* Brings an answer's element up to date; called for each piece that arrives. */
function fill(node, m, i) {
    const alt = current(m), run = runs.get(chat.id), live = run?.message === m, p = parts(alt), think = $('.think', node), more = $('.more', node);
    node.classList.toggle('busy', live);
    node.setAttribute('aria-busy', live);
    think.hidden = !p.think.trim();
    think.classList.toggle('live', live && p.open);
    $('summary span', think).textContent = live && p.open ? 'Thinking …' : alt.thinkMs ? 'Thought for ' + (alt.thinkMs / 1000).toFixed(1) + ' s' : 'Thoughts';
    markdown($('.md', think), p.think.trim());
    markdown($('.answer', node), p.text.trimStart());
    more.replaceChildren();
    if (live && !alt.text && !alt.think) more.append(waiting(run));
    if (alt.error) more.append(el('div', { className: 'note' }, alt.error));
    if (!live && alt.cut) more.append(el('div', { className: 'cut' }, alt.cut === 'stop' ? 'Stopped.' : 'Cut off: the token limit was reached.'));
    if (!live) actions($('.acts', node), m, i, p.text.trim());
    else $('.acts', node).replaceChildren();
}

function waiting(run) {
    const p = run.progress, box = el('div', { className: 'wait' }, p ? 'Reading ' + p.processed + ' of ' + p.total + ' tokens' : 'Waiting for the model …');
    if (p) box.append(el('progress', { max: p.total, value: p.processed }));
    return box;
}

function actions(box, m, i, text) {
    const alt = current(m), last = i === chat.messages.length - 1;
    box.replaceChildren(iconButton('copy', 'Copy', () => copy(text).then(() => toast('Copied'))));
    if (last) box.append(iconButton('again', 'Regenerate', () => regenerate(m)));
    if (m.alts.length > 1) {
        const go = d => () => { m.at += d; keep(chat, false); drawAll(); };
        const prev = iconButton('prev', 'Previous answer', go(-1)), next = iconButton('next', 'Next answer', go(1));
        prev.disabled = m.at === 0 || !last;
        next.disabled = m.at === m.alts.length - 1 || !last;
        box.append(prev, el('span', { className: 'stat' }, m.at + 1 + ' / ' + m.alts.length), next);
    }
    if (alt.stat) box.append(el('span', { className: 'stat' }, alt.stat));
}

/* ---- scrolling: follow the text unless the reader has moved up ---------------------------------------------------------------- */

let follow = true;
const area = $('#scroll');
function toEnd() { follow = true; area.scrollTop = area.scrollHeight; }
area.addEventListener('scroll', () => {
    follow = area.scrollHeight - area.scrollTop - area.clientHeight < 60;
    $('#down').hidden = follow;
});

/* ---- asking ------------------------------------------------------------------------------------------------------------------ */

function ask(text) {
    if (runs.has(chat.id)) return;
    chat.messages.push({ role: 'user', text });
    if (!chat.named) chat.title = chat.messages[0].text.replace(/\s+/g, ' ').trim().slice(0, 70);
    chat.messages.push({ role: 'assistant', alts: [], at: 0 });
    answer(chat);
}

function regenerate(m) {
    if (!runs.has(chat.id)) answer(chat, m);
}

function requestBody(c, upTo) {
    const messages = c.system.trim() ? [{ role: 'system', content: c.system }] : [];
    for (const m of c.messages.slice(0, upTo)) messages.push({ role: m.role, content: m.role === 'user' ? m.text : parts(current(m)).text });
    const body = { messages, stream: true, stream_options: { include_usage: true }, return_progress: true };
    if (modelName) body.model = modelName;
    for (const [name] of FIELDS) if (Number.isFinite(settings[name])) body[name] = settings[name];
    if (settings.thinking) body.chat_template_kwargs = { enable_thinking: settings.thinking === 'on' };
    return body;
}

const headers = () => ({ 'Content-Type': 'application/json', ...(settings.key ? { Authorization: 'Bearer ' + settings.key } : {}) });

/* Server-sent events of a response: the data of each, parsed. */
async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const pieces = (rest + value.replace(/\r/g, '')).split('\n\n');
        rest = pieces.pop();
        for (const piece of pieces) {
            const data = piece.split('\n').filter(l => l.startsWith('data:')).map(l => l.slice(5).trimStart()).join('\n');
            if (data === '[DONE]') return;
            if (data) yield JSON.parse(data);
        }
    }
}

async function failure(response) {
    const text = await response.text();
    let message = text.slice(0, 300);
    try { message = JSON.parse(text).error.message; } catch { /* not ours: a proxy's page */ }
    return response.status === 401 ? message + ' (Settings has a field for it)' : message || 'The server answered ' + response.status;
}

/* Writes the answer of message m (the last one), as a further alternative where it has some already. */
async function answer(c, m = c.messages.at(-1)) {
    const abort = new AbortController(), alt = { text: '', think: '', thinkMs: 0, error: '', cut: '', stat: '' };
    m.alts.push(alt);
    m.at = m.alts.length - 1;
    const run = { chat: c, message: m, alt, stop: () => abort.abort(), began: performance.now(), first: 0, n: 0, progress: null, thought: 0 };
    runs.set(c.id, run);
    keep(c);
    history.replaceState(null, '', '#' + c.id);
    if (c === chat) { drawAll(); toEnd(); }
    drawChats();
    let due = 0, saved = performance.now();
    const draw = () => {
        due = 0;
        if (c !== chat) return;
        const i = c.messages.indexOf(m), node = $('#log').childNodes[i];
        if (node) fill(node, m, i);
        drawState();
        if (follow) area.scrollTop = area.scrollHeight;
    };
    try {
        const response = await fetch('v1/chat/completions', { method: 'POST', headers: headers(), body: JSON.stringify(requestBody(c, c.messages.indexOf(m))), signal: abort.signal });
        if (!response.ok) throw new Error(await failure(response));
        for await (const event of events(response)) {
            take(event, run);
            if (performance.now() - saved > 2000) { keep(c); saved = performance.now(); }
            due ||= requestAnimationFrame(draw);
        }
        if (!alt.stat && !alt.error && !alt.cut && !alt.text && !alt.think) alt.error = 'The answer is empty.';
    } catch (e) {
        if (e.name === 'AbortError') alt.cut = 'stop';
        else alt.error = e instanceof TypeError ? 'The server cannot be reached, or went away.' : e.message;
    }
    if (!alt.stat && run.n) alt.stat = rate(run);
    cancelAnimationFrame(due);
    runs.delete(c.id);
    if (index.some(x => x.id === c.id)) keep(c); // it may have been deleted meanwhile
    draw();
    drawState();
}

const perSecond = run => (run.n > 1 ? (run.n - 1) / (run.last - run.first) * 1000 : 0);
const rate = run => run.n + ' tokens' + (perSecond(run) ? ' · ' + perSecond(run).toFixed(1) + ' tokens/s' : '');

/* One event of the stream into the answer. */
function take(event, run) {
    const { alt } = run, choice = event.choices?.[0], delta = choice?.delta || {}, now = performance.now();
    if (event.error) throw new Error(event.error.message || 'The server reported an error.');
    if (event.prompt_progress) run.progress = event.prompt_progress;
    const think = delta.reasoning_content || delta.reasoning || '', text = delta.content || '';
    if (think || text) {
        run.first ||= now;
        run.last = now;
        run.n++;
        alt.think += think;
        alt.text += text;
        const p = parts(alt);
        if (p.think && p.open) alt.thinkMs = now - run.first;
    }
    if (choice?.finish_reason === 'length') alt.cut = 'length';
    if (event.usage) {
        const u = event.usage, t = event.timings || {}, cached = u.prompt_tokens_details?.cached_tokens || 0;
        run.used = u.total_tokens;
        alt.stat = u.completion_tokens + ' tokens' + (t.predicted_per_second ? ' · ' + t.predicted_per_second.toFixed(1) + ' tokens/s' : '') +
            ' · prompt ' + u.prompt_tokens + (cached ? ' (' + cached + ' cached)' : '') + (t.prompt_ms ? ' in ' + (t.prompt_ms / 1000).toFixed(2) + ' s' : '');
        run.chat.used = u.total_tokens;
    }
}

/* ---- button, hint, context -------------------------------------------------------------------------------------------------------- */

function drawState() {
    const run = runs.get(chat.id), send = $('#send'), busy = !!run;
    if (send.classList.contains('stop') !== busy || !send.firstChild) {
        send.classList.toggle('stop', busy);
        send.setAttribute('aria-label', busy ? 'Stop' : 'Send');
        send.replaceChildren(icon(busy ? 'stop' : 'send'));
    }
    send.disabled = !busy && !$('#text').value.trim();
    $('#hint').replaceChildren(run ? (run.n ? rate(run) : '') : el('span', { className: 'keys' }, 'Enter sends, Shift + Enter starts a line'));
    $('#save-one').hidden = chat.messages.length === 0;
    const ctx = $('#ctx');
    ctx.replaceChildren();
    if (nCtx && chat.used) ctx.append(el('progress', { max: nCtx, value: chat.used, 'aria-label': 'Context used' }), el('span', {}, chat.used + ' / ' + nCtx));
    document.title = chat.title ? chat.title + ' – amd-infer' : 'amd-infer';
}

/* ---- export, import ------------------------------------------------------------------------------------------------------------------ */

function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    el('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function exportAll() {
    const list = index.map(c => clean(read('c.' + c.id, null))).filter(c => c);
    if (!list.length) { toast('There is nothing to export'); return; }
    download('conversations.json', 'application/json', JSON.stringify({ format: 'amd-infer conversations', version: 1, conversations: list }, null, 1));
}

function exportOne() {
    const text = chat.messages.map(m => (m.role === 'user' ? '## You\n\n' + m.text : '## ' + (modelName || 'Model') + '\n\n' + parts(current(m)).text.trim())).join('\n\n');
    download((chat.title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 50) || 'conversation') + '.md', 'text/markdown', '# ' + chat.title + '\n\n' + (chat.system ? '> ' + chat.system.replace(/\n/g, '\n> ') + '\n\n' : '') + text + '\n');
}

async function importFile(file) {
    let list = [];
    try { list = JSON.parse(await file.text()).conversations.map(clean).filter(c => c); } catch { /* told below */ }
    for (const c of list) keep(c, false);
    toast(list.length ? list.length + (list.length === 1 ? ' conversation' : ' conversations') + ' imported' : 'That file holds no exported conversations');
    drawChats();
}

async function attach(files) {
    for (const f of files) {
        if (f.size > 1 << 20) { toast(f.name + ' is larger than 1 MB'); continue; }
        const text = await f.text();
        if (text.includes('\0')) { toast(f.name + ' is not a text file'); continue; }
        const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(m => m[0].length + 1)));
        $('#text').value += ($('#text').value ? '\n\n' : '') + f.name + ':\n' + fence + (f.name.split('.').pop() || '') + '\n' + text.trimEnd() + '\n' + fence + '\n';
    }
    grow();
    $('#text').focus();
}

/* ---- settings ------------------------------------------------------------------------------------------------------------------------ */

const form = $('#settings form');
const grid = $('.grid', form);
for (const [name, label, min, max, step] of FIELDS)
    grid.append(el('label', {}, label, el('input', { name, type: 'number', min, max, step, placeholder: 'default', inputMode: 'decimal' })));

function openSettings() {
    for (const e of form.elements) if (e.name) e.value = e.name === 'system' ? chat.system : settings[e.name] ?? '';
    document.body.classList.remove('side-open');
    $('#settings').returnValue = '';
    $('#settings').showModal();
}

function theme() {
    if (settings.theme) document.documentElement.dataset.theme = settings.theme;
    else delete document.documentElement.dataset.theme;
}

$('#settings').addEventListener('close', () => {
    if ($('#settings').returnValue !== 'ok') return;
    for (const e of form.elements) {
        if (!e.name) continue;
        if (e.type !== 'number') settings[e.name] = e.value.trim();
        else if (e.value === '') delete settings[e.name];
        else settings[e.name] = e.valueAsNumber;
    }
    chat.system = settings.system;
    if (chat.messages.length) keep(chat, false);
    write('settings', settings);
    theme();
    askServer();
});
$('#reset').onclick = () => { for (const e of form.elements) if (e.type === 'number') e.value = ''; };

/* ---- the server ------------------------------------------------------------------------------------------------------------------------ */

async function askServer() {
    try {
        const r = await fetch('v1/models', { headers: headers() });
        if (r.ok) {
            const model = (await r.json()).data[0];
            modelName = model.id;
            nCtx = model.context_length || 0;
            $('#model').textContent = modelName;
            $('#model').title = modelName;
            drawState();
            return;
        }
        $('#model').textContent = r.status === 503 ? 'The model is loading …' : r.status === 401 ? 'An API key is needed: see Settings' : await failure(r);
        if (r.status !== 503) return;
    } catch {
        $('#model').textContent = 'The server cannot be reached';
    }
    setTimeout(askServer, 1500);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------------------ */

function grow() {
    const t = $('#text');
    if (!CSS.supports('field-sizing', 'content')) {
        t.style.height = 'auto';
        t.style.height = t.scrollHeight + 'px';
    }
    drawState();
}

$('#box').addEventListener('submit', e => {
    e.preventDefault();
    const text = $('#text').value.trim(), run = runs.get(chat.id);
    if (run) { run.stop(); return; }
    if (!text) return;
    $('#text').value = '';
    grow();
    ask(text);
});
$('#text').addEventListener('input', grow);
$('#text').addEventListener('keydown', e => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing || matchMedia('(hover: none)').matches) return;
    e.preventDefault();
    if (!runs.has(chat.id)) $('#box').requestSubmit();
});
addEventListener('keydown', e => {
    if (e.key === 'Escape' && !$('#settings').open && e.target === $('#text')) runs.get(chat.id)?.stop();
    if ((e.ctrlKey || e.metaKey) && e.shiftKey && e.key.toLowerCase() === 'o') { e.preventDefault(); show(null); }
});
addEventListener('storage', e => { if (e.key === PREFIX + 'index') { readIndex(); drawChats(); } });
addEventListener('pagehide', () => { for (const run of runs.values()) keep(run.chat); });
for (const kind of ['dragover', 'dragleave', 'drop']) addEventListener(kind, e => {
    if (!e.dataTransfer?.types.includes('Files')) return;
    e.preventDefault();
    $('#box').classList.toggle('drop', kind === 'dragover');
    if (kind === 'drop') attach(e.dataTransfer.files);
});
const on = (id, fn) => $(id).addEventListener('click', fn);
on('#new', () => show(null));
on('#menu', () => document.body.classList.add('side-open'));
on('#shade', () => document.body.classList.remove('side-open'));
on('#down', toEnd);
on('#open-settings', openSettings);
on('#export', exportAll);
on('#save-one', exportOne);
on('#import', () => $('#archive').click());
on('#attach', () => $('#files').click());
$('#find').addEventListener('input', drawChats);
$('#archive').addEventListener('change', e => { if (e.target.files[0]) importFile(e.target.files[0]); e.target.value = ''; });
$('#files').addEventListener('change', e => { attach([...e.target.files]).then(() => { e.target.value = ''; }); });
for (const [title, rest] of [['Explain', 'how a rainbow forms, to a ten-year-old'], ['Write', 'a C function that reverses a string'], ['Compare', 'three sorting algorithms in a table'], ['Plan', 'a weekend in a small harbour town']])
    $('.ideas').append(el('button', { type: 'button', onclick: () => ask(title + ' ' + rest + '.') }, title, el('span', {}, rest)));

theme();
readIndex();
show(location.hash.slice(1));
askServer();
