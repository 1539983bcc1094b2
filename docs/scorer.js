// SPDX-License-Identifier: Apache-2.0
// Ranks the hits of the site's search: Sphinx's scores, but a page with a word of the query in its title comes
// first, results and logs come last, and of two equal hits the one with the shorter name comes first.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, , , score, , kind]) => {
    if (kind === "object") return score - (title.match(/\./g) || []).length;
    if (/\/results\/|^benchmarks\/|^CHANGELOG$/.test(page)) return score - 11;
    if (kind !== "text") return score;
    const query = new URLSearchParams(location.search).get("q") || "";
    const words = query.toLowerCase().split(/\W+/).filter((word) => word.length > 2);
    const found = words.filter((word) => title.toLowerCase().includes(word.replace(/s$/, "")));
    return score + (5 * found.length) / Math.max(words.length, 1) - page.length / 1000;
  },
};
