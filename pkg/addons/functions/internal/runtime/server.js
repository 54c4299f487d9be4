// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0
// The server in pods of Node functions: it is given code once (POST /.minik8s/load), and then answers requests with it.
'use strict';
const http = require('http');
const fs = require('fs');
const path = require('path');

const MAX_BODY = 10 << 20;
const DIR = '/tmp/function';
const token = process.env.MINIK8S_TOKEN || '';
delete process.env.MINIK8S_TOKEN;

let main = null, revision = '', failure = '', timeout = 0, stopping = false;
const running = new Map(); // request: begin

// How many requests have gone on for longer than timeoutSeconds, and some beyond.
function hung(beyond) {
  const limit = Date.now() - (timeout + beyond) * 1000;
  return timeout ? [...running.values()].filter((begin) => begin < limit).length : 0;
}

function load(code) {
  if (revision) {
    if (revision !== code.revision) return [409, { error: 'this pod has the code of revision ' + revision }];
    if (hung(-0.1)) return [503, { error: 'a request has gone on for longer than timeoutSeconds' }];
    return [failure ? 422 : 200, { error: failure }];
  }
  revision = code.revision;
  timeout = code.timeoutSeconds || 0;
  try {
    Object.assign(process.env, code.env || {});
    for (const [name, data] of Object.entries(code.files)) {
      const at = path.join(DIR, name);
      fs.mkdirSync(path.dirname(at), { recursive: true });
      fs.writeFileSync(at, Buffer.from(data, 'base64'));
    }
    process.chdir(DIR);
    const dot = code.handler.lastIndexOf('.');
    const module = code.handler.slice(0, dot).replaceAll('.', '/'), name = code.handler.slice(dot + 1);
    const found = require(path.join(DIR, module))[name];
    if (typeof found !== 'function') throw new TypeError('module ' + module + ' has no function ' + name);
    main = found;
  } catch (e) {
    console.error(e);
    failure = String(e).split('\n').pop();
  }
  return [failure ? 422 : 200, { error: failure }];
}

function params(req, body) {
  let value = {};
  if (body.length) {
    value = JSON.parse(body);
  } else if (req.url.includes('?')) {
    value = Object.fromEntries(new URLSearchParams(req.url.slice(req.url.indexOf('?') + 1)));
  }
  if (!('ce-specversion' in req.headers)) return value;
  const event = {};
  for (const [k, v] of Object.entries(req.headers)) if (k.startsWith('ce-')) event[k.slice(3)] = v;
  if (body.length) event.data = value;
  return event;
}

async function answer(req, body) {
  const at = req.url.split('?')[0];
  if (at === '/healthz') {
    if (!revision) return [503, { state: 'empty' }];
    if (failure) return [500, { state: 'failed', error: failure }];
    return hung(-0.1) ? [503, { state: 'hung' }] : [200, { state: 'loaded', revision }];
  }
  if (at === '/.minik8s/load') {
    if (!token || req.headers.authorization !== 'Bearer ' + token) return [401, { error: 'only the controller of functions brings code' }];
    return load(JSON.parse(body));
  }
  if (!main) return [503, { error: failure || 'this pod has no code yet' }];
  let value;
  try {
    value = params(req, body);
  } catch (e) {
    return [400, { error: 'the body is no JSON: ' + e.message }];
  }
  running.set(req, Date.now());
  try {
    const result = await main(value, { method: req.method, path: req.url, headers: req.headers });
    return [200, result === undefined ? null : result];
  } catch (e) {
    console.error(e);
    return [500, { error: String(e) }];
  } finally {
    running.delete(req);
  }
}

const server = http.createServer((req, res) => {
  const parts = [];
  let size = 0;
  req.on('data', (data) => {
    size += data.length;
    if (size <= MAX_BODY) parts.push(data);
  });
  req.on('end', async () => {
    let status, value, out;
    try {
      [status, value] = size > MAX_BODY ? [413, { error: 'the body has more than 10 MiB' }] : await answer(req, Buffer.concat(parts));
      out = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
    } catch (e) { // a cycle, a function, a BigInt: it ends this request only, not the process with all others
      console.error(e);
      status = 500;
      value = { error: 'the answer is no JSON: ' + e.message };
      out = Buffer.from(JSON.stringify(value));
    }
    const type = Buffer.isBuffer(value) ? 'application/octet-stream' : 'application/json';
    res.writeHead(status, { 'Content-Type': type, 'Content-Length': out.length });
    res.end(out);
  });
});
server.keepAliveTimeout = 0; // the other side closes connections that it does not need
server.headersTimeout = 60000;
server.requestTimeout = 0;
server.listen(Number(process.env.PORT || 8080));

setInterval(() => {
  const n = hung(1);
  if (n && n >= running.size) {
    console.error(n + ' requests have gone on for longer than timeoutSeconds: this process ends');
    process.exit(70);
  }
}, 1000);
process.on('uncaughtException', (e) => { console.error(e); process.exit(1); });
process.on('SIGTERM', () => {
  if (stopping) return;
  stopping = true;
  let quiet = 0;
  setInterval(() => { // what is on its way when this pod goes is still answered
    quiet = running.size ? 0 : quiet + 1;
    if (quiet >= 5) process.exit(0);
  }, 50);
});
