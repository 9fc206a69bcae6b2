#!/usr/bin/env bash
# Installs what the full tier's tests of pages and tables open them with: Chromium, LaTeX, poppler. Debian, as root.
# Elsewhere it says what is missing; the tests that need it are then skipped, and say so.
set -euo pipefail

packages=()
command -v chromium >/dev/null || packages+=(chromium)
command -v pdflatex >/dev/null || packages+=(texlive-latex-recommended texlive-science)
[ -n "$(kpsewhich c70gbsn.fd 2>/dev/null)" ] || packages+=(latex-cjk-chinese latex-cjk-chinese-arphic-gbsn00lp)
command -v pdffonts >/dev/null || packages+=(poppler-utils)
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "some tests will be skipped: they need ${packages[*]} (Debian's names)"
    exit 0
fi
echo "installing ${packages[*]} ..."
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y --no-install-recommends "${packages[@]}")
"${install[@]}" >/dev/null 2>&1 || { apt-get update >/dev/null && "${install[@]}" >/dev/null; }
