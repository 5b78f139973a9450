#!/bin/bash
# Installs Debian packages in a copy of this machine that is thrown away, starts the service as systemd would, moves a tree, removes
# and purges the packages, and looks at what is left. Run by `cargo xtask test deb`, in mount, network and process namespaces of its
# own:
#   unshare --mount --net --pid --fork --kill-child bash packaging/test-deb.sh BRAIDFTP.deb BRAIDLAB.deb
set -euo pipefail

fail() {
    echo "test deb: $*" >&2
    exit 1
}
step() { echo "test deb: $*"; }
braidftp_deb=$(realpath "$1")
braidlab_deb=$(realpath "$2")

# What is written goes to a folder in memory, over the machine's own files. Other file systems are not in the copy.
work=$(mktemp -d)
mount -t tmpfs test-deb "$work"
trap 'umount --recursive --lazy "$work" && rmdir "$work"' EXIT
mkdir "$work/upper" "$work/scratch" "$work/root" "$work/debs"
cp "$braidftp_deb" "$work/debs/braidftp.deb"
cp "$braidlab_deb" "$work/debs/braidlab.deb"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" "$work/root"
root=$work/root
for folder in run tmp proc; do mkdir -p "$root/$folder"; done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs test-deb "$root/run"
mount --bind "$work/debs" "$root/mnt"
ip link set lo up
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/tmp DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

! inside dpkg -s braidftp >/dev/null 2>&1 || fail "braidftp is installed on this machine already: remove it first"
inside getent passwd braidftp >/dev/null && fail "this machine has a user braidftp already: remove it first"

# Such as the key of a server that root has run here.
inside rm -rf /etc/braidftp /var/lib/braidftp

step "install"
inside dpkg -i /mnt/braidftp.deb /mnt/braidlab.deb
inside braidftp --version
inside braidlab --version
inside sh -c 'gzip -t /usr/share/man/man1/braidftp.1.gz && test -e /usr/share/man/man1/braidftp-serve.1.gz' || fail "a man page is missing"
inside bash -c '. /usr/share/bash-completion/completions/braidftp && complete -p braidftp' >/dev/null || fail "no completions for bash"
inside grep -q '^#compdef braidftp' /usr/share/zsh/vendor-completions/_braidftp || fail "no completions for zsh"
inside grep -q '^complete -c braidftp' /usr/share/fish/vendor_completions.d/braidftp.fish || fail "no completions for fish"
inside sh -c 'grep -qx /etc/braidftp/braidftp.toml /var/lib/dpkg/info/braidftp.conffiles' || fail "the settings are no conffile"
[ "$(inside stat -c '%U:%G %a' /etc/braidftp /etc/braidftp/braidftp.toml | tr '\n' ' ')" = "root:braidftp 750 root:braidftp 640 " ] ||
    fail "the settings are for others than root and the service: $(inside ls -la /etc/braidftp)"
if inside systemctl is-enabled braidftp.service braidftp.socket | grep -q enabled; then fail "the installation enables the service"; fi
unit=$(inside sh -c 'ls /lib/systemd/system/braidftp.service')
inside systemd-analyze verify --man=no "$unit" /lib/systemd/system/braidftp.socket
inside systemd-analyze security --offline=yes --no-pager "$unit" | tail -1

step "start, with the user, the folders and the command of $unit"
value() { sed -n "s/^$1=//p" "$root/$unit"; }
user=$(value User)
group=$(value Group)
for kind in State:/var/lib Logs:/var/log Runtime:/run; do
    inside install -d -o "$user" -g "$group" -m "$(value "${kind%%:*}DirectoryMode")" "${kind#*:}/$(value "${kind%%:*}Directory")"
done
inside dd if=/dev/urandom of=/srv/ftp/large bs=1M count=3 status=none
inside sh -c 'mkdir /srv/ftp/folder && date > "/srv/ftp/folder/a small file"'
read -ra command <<<"$(value ExecStart)"
serve() {
    inside setpriv --reuid="$user" --regid="$group" --clear-groups --bounding-set=-all --no-new-privs \
        env STATE_DIRECTORY=/var/lib/braidftp "${command[@]}" >"$work/log" 2>&1 &
    server=$!
    until inside braidftp ctl who >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || fail "the service has ended: $(cat "$work/log")"
        sleep 0.1
    done
}
serve
inside braidftp mirror --accept-new ftp+sctp://127.0.0.1/ /tmp/over-sctp
inside braidftp mirror --accept-new ftp://127.0.0.1:2121/ /tmp/over-tcp
inside diff -r /srv/ftp /tmp/over-sctp || fail "the copy over SCTP differs"
inside diff -r /srv/ftp /tmp/over-tcp || fail "the copy over TCP differs"
kill -HUP "$(pgrep -x braidftp)"
kill -TERM "$(pgrep -x braidftp)"
wait "$server" || fail "the service ended with exit code $?: $(cat "$work/log")"

step "install again: settings of an administrator stay"
inside sh -c 'echo "greeting = \"mine\"" >> /etc/braidftp/braidftp.toml; chmod 644 /etc/braidftp/braidftp.toml'
inside dpkg -i /mnt/braidftp.deb </dev/null
inside sh -c 'grep -q mine /etc/braidftp/braidftp.toml && [ $(stat -c %a /etc/braidftp/braidftp.toml) = 644 ]' || fail "they were changed"

step "remove: settings, key and files stay"
inside dpkg -r braidftp braidlab
for path in /etc/braidftp/braidftp.toml /var/lib/braidftp/server.pem /srv/ftp/large; do
    inside test -e "$path" || fail "$path is gone"
done
! inside test -e /usr/bin/braidftp || fail "the program is still there"

step "purge: the files that were served stay, and the user"
inside dpkg -P braidftp braidlab
inside test -e /srv/ftp/large || fail "the served files are gone"
inside getent passwd braidftp >/dev/null || fail "the user is gone"
inside rm -r /srv/ftp /tmp/over-sctp /tmp/over-tcp
# Without what dpkg and the accounts write down. A device stands for a file of the machine that was deleted.
left=$(cd "$work/upper" && find . ! -type d ! -type c | grep -vE \
    '^\./(var/lib/dpkg/|var/log/(dpkg|alternatives)\.log$|var/cache/|etc/(passwd|group|shadow|gshadow)-?$|etc/\.pwd\.lock$|tmp/)' || true)
left+=$(inside sh -c 'ls -d /srv/ftp /etc/braidftp /var/lib/braidftp /var/log/braidftp 2>/dev/null' || true)
[ -z "$left" ] || fail "after the purge there is still: $left"
! inside dpkg -s braidftp >/dev/null 2>&1 || fail "dpkg still knows of it"
step "passed"
