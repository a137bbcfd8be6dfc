// The map library inside Plotly adds a style to the page when it is loaded, which the page does not allow, unless an element
// with a certain id exists: a hash that differs between versions. charts.js ends this.

(() => {
  const find = document.getElementById;
  document.getElementById = (id) => (/^[0-9a-f]{64}$/.test(id) ? document.documentElement : find.call(document, id));
})();
