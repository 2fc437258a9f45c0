#!/usr/bin/env python3
"""Checks the closed form of a segment of Gated DeltaNet against the recurrence, in float64 and with random inputs.

For a segment that begins with state S0, with g_t the product of the decays of tokens 0 .. t and b_t = beta:
    L[t][s] = b_t (g_t / g_s) k_t.k_s for s < t,  T = (I + L)^-1
    D = U - W S0,  U = T diag(b) V,  W = T diag(b g) K             what each token adds: S gains k_t D_t^T
    O = diag(g) Q S0 + M D,  M[t][s] = (g_t / g_s) q_t.k_s for s <= t
    S = g_n S0 + K^T diag(g_n / g) D
and the form that the CPU computes, with the state in the system's right-hand side: (I + L) D = diag(b) (V - diag(g) K S0).
Prints the largest relative differences; exits with 1 when one is above 1e-12.
"""
import sys

import numpy as np


def recurrence(s, q, k, v, beta, log_decay):
    out = np.empty_like(v)
    for t in range(len(v)):
        s = s * np.exp(log_decay[t])
        d = beta[t] * (v[t] - s.T @ k[t])
        s = s + np.outer(k[t], d)
        out[t] = s.T @ q[t]
    return out, s


def segment(s0, q, k, v, beta, log_decay, split):
    c = np.cumsum(log_decay)
    g, ratio = np.exp(c), np.exp(np.minimum(c[:, None] - c[None, :], 0))
    system = np.eye(len(c)) + np.tril(beta[:, None] * ratio * (k @ k.T), -1)
    if split:
        d = np.linalg.solve(system, beta[:, None] * v) - np.linalg.solve(system, (beta * g)[:, None] * k) @ s0
    else:
        d = np.linalg.solve(system, beta[:, None] * (v - g[:, None] * (k @ s0)))
    out = g[:, None] * (q @ s0) + np.tril(ratio * (q @ k.T)) @ d
    return out, g[-1] * s0 + k.T @ (np.exp(c[-1] - c)[:, None] * d)


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def main():
    rng = np.random.default_rng(1)
    worst = {"D = U - W S0": [0, 0], "one solve": [0, 0]}
    for n in (1, 2, 3, 17, 31, 32):
        for trial in range(20):
            dim = (32, 64, 128)[trial % 3]
            q, k, v = (rng.normal(size=(n, dim)) for _ in range(3))
            q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))
            beta, log_decay = rng.uniform(0, 1, n), -np.exp(rng.uniform(-8, 2, n))
            s0 = rng.normal(size=(dim, dim))
            want = recurrence(s0, q, k, v, beta, log_decay)
            for name, w in worst.items():
                got = segment(s0, q, k, v, beta, log_decay, name != "one solve")
                w[:] = [max(x, difference(a, b)) for x, a, b in zip(w, got, want)]
    for name, (o, s) in worst.items():
        print(f"{name}: results {o:.2g}, states {s:.2g}")
    return 0 if max(x for w in worst.values() for x in w) < 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main())
