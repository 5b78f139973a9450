// Before anything is drawn: light or dark, as chosen here before, or as the system has it.
(() => {
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const chosen = () => {
    try {
      return localStorage.getItem('braidlab-theme');
    } catch {
      return null;
    }
  };
  const apply = () => {
    document.documentElement.dataset.theme = chosen() || (system.matches ? 'dark' : 'light');
  };
  system.addEventListener('change', apply);
  apply();
})();
