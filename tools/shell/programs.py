"""What is known of programs, as data: which options take a value, read, write or execute, and what operands are.

A row begins in the first column with the names it is for (``git_log``: that sub-command); its fields are parted by
``;``. See ``options.Row`` for what they mean. A program without a row may do anything with each of its words.
"""

from __future__ import annotations

ROWS = """
cat tac rev: read; table; general cat; flags -AbeEnstTuvr --number --show-all --show-ends --show-tabs
    --number-nonblank --squeeze-blank
nl: read; table; general nl; flags -p; value -b -d -f -h -i -l -n -s -v -w
wc: read; table; general wc; flags -cmlLw --bytes --chars --lines --words --max-line-length; reads --files0-from
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum: read; table; general md5sum sha256sum; flags
    -bctwz --check --binary --text --quiet --status --tag
head tail: read; table; general head tail; flags -qvzfFr0123456789 --quiet --silent --verbose --follow --retry; value
    -n -c --lines --bytes --pid -s --sleep-interval
zcat bzcat xzcat tsort hd: read
zless less more look zgrep: read
ls dir vdir: list; here; table; general ls; flags -1AabBcCdfFgGhHiklLmnNopqQrRsStTuUvxXZ --all --almost-all
    --recursive --human-readable --reverse --size --directory --color --full-time --classify --inode
    --group-directories-first --numeric-uid-gid --no-group --si; value -I -w --ignore --hide --width --format --sort
    --time --time-style --block-size --indicator-style; walk -R --recursive
exa eza lsd: list; here; value -I -w -L -s --sort --time --time-style --level; walk -R -T --recurse --tree
tree: list; table; flags -adfilpsughDFqNQrtUvxACnSJXhH --dirsfirst --noreport --du --prune --gitignore --filelimit;
    value -L -P -I --charset --sort --timefmt; writes -o --output; walk *
stat: list; table; general stat; flags -LftxF --dereference --file-system --terse; value -c --format --printf
realpath readlink: list; table; general realpath readlink; flags -feLmnPqsvz --canonicalize --canonicalize-existing
    --canonicalize-missing --no-newline --strip --quiet; value --relative-to --relative-base
basename dirname: list; table; general basename dirname; flags -az --multiple --zero; value -s --suffix
du df: list; table; general du df; flags -0abcDhHiklLmPsSTtx --all --total --human-readable --summarize --si
    --apparent-size --null; value -B -d -t --max-depth --exclude --block-size --type; reads -X --files0-from; walk *
file: read; table; flags -bciIkLhnNprsvzZE0 --brief --mime --mime-type --mime-encoding --dereference; value -e -F -P;
    reads -f -m --files-from --magic-file; runs -C --compile
grep egrep fgrep: read; skip 1; instead -e -f --regexp --file; table; general grep; flags
    -acEFGhHiIlLnoPqRrsTuUvVwxyzZb0123456789 --count --ignore-case --no-ignore-case --invert-match --word-regexp
    --line-regexp --files-with-matches --files-without-match --line-number --with-filename --no-filename
    --only-matching --quiet --silent --no-messages --extended-regexp --fixed-strings --perl-regexp --basic-regexp
    --recursive --dereference-recursive --text --color --colour --null --null-data --byte-offset --initial-tab; value
    -A -B -C -m -D -d --label --include --exclude --exclude-dir --max-count --context --after-context --before-context
    --binary-files --devices --directories -e --regexp; reads -f --file --exclude-from; walk -r -R --recursive
    --dereference-recursive; directories
rgrep: read; skip 1; instead -e -f; value -e -A -B -C -m; reads -f; walk *
rg: read; skip 1; instead -e -f --regexp --file --files --type-list; table; flags -.0abcFhHiIlLnNoPpqsSuUvVwx --hidden
    --no-ignore --no-ignore-vcs --files --files-with-matches --files-without-match --ignore-case --smart-case
    --case-sensitive --count --count-matches --fixed-strings --line-number --no-line-number --no-filename
    --with-filename --heading --no-heading --only-matching --word-regexp --invert-match --multiline --multiline-dotall
    --pcre2 --json --stats --quiet --unrestricted --column --trim --vimgrep --null --type-list --passthru --follow
    --no-messages --pretty; value -A -B -C -M -d -E -e -g -j -m -r -t -T --after-context --before-context --context
    --color --colors --context-separator --encoding --engine --glob --iglob --max-columns --max-count --max-depth
    --max-filesize --regexp --replace --sort --sortr --threads --type --type-add --type-clear --type-not --pre-glob
    --hyperlink-format --path-separator --field-match-separator --field-context-separator; reads -f --file
    --ignore-file; runs --pre --hostname-bin; walk *; dots
ag ack: read; skip 1; value -A -B -C -m; runs --pager; walk *; here
cut: read; table; general cut; flags -nsz --complement --only-delimited; value -b -c -d -f --bytes --characters
    --delimiter --fields --output-delimiter
paste: read; table; flags -sz; value -d --delimiters
tr: none; table; flags -cCdst --complement --delete --squeeze-repeats --truncate-set1
sort: read; table; flags -bdfgiMhnRrVcCmsuz --ignore-leading-blanks --dictionary-order --ignore-case
    --general-numeric-sort --human-numeric-sort --month-sort --numeric-sort --random-sort --reverse --version-sort
    --check --merge --stable --unique --zero-terminated; value -k -t -S --key --field-separator --buffer-size
    --parallel --batch-size --sort; reads --files0-from --random-source; writes -o --output -T --temporary-directory;
    runs --compress-program
uniq: read; table; flags -cdDiuz --count --repeated --unique --ignore-case --zero-terminated; value -f -s -w
    --skip-fields --skip-chars --check-chars --group --all-repeated; second
xxd: read; table; flags -abeEipuv; value -c -g -l -s -o -n -R; second
comm: read; table; flags -123z --check-order --nocheck-order --total; value --output-delimiter
join: read; table; flags -iz; value -1 -2 -t -o -a -e -v -j
cmp: read; table; general cmp; flags -bls --print-bytes --verbose --quiet --silent; value -n -i --bytes
    --ignore-initial
diff colordiff: read; table; flags -abBcdeEfHiklLNnpPqrstTuvwyZ0123456789 --brief --recursive --unified --context
    --side-by-side --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines --color --new-file
    --text --minimal --suppress-common-lines --no-dereference --strip-trailing-cr; value -U -C -W -I -x -F --label
    --exclude --ignore-matching-lines --width; reads --from-file --to-file --exclude-from -X; walk -r --recursive;
    maybe
sdiff diff3: read; value -w; writes -o --output; runs --diff-program
date: none; table; sets; flags -uRI --utc --universal --iso-8601 --rfc-email --rfc-3339; value -d --date; reads
    -f --file -r --reference; runs -s --set
column: read; table; flags -txens --table --separator; value -s -o -c -N -R -H -W -T --output-separator
    --table-columns
fold fmt: read; table; flags -bsctu; value -w --width
expand unexpand: read; table; flags -ia; value -t --tabs
pr: read; table; value -l -w -h
strings: read; table; flags -afo --all; value -n -t -e --bytes --radix --encoding
hexdump: read; table; flags -bcCdovx; value -e -n -s; reads -f
od: read; table; flags -abcdfilosxv; value -A -j -N -S -t
base64 base32 basenc: read; table; flags -diDw --decode --ignore-garbage; value -w --wrap; reads -i; writes -o
    --output
iconv: read; value -f -t --from-code --to-code; writes -o --output
shuf: read; value -n -i --head-count --input-range; reads --random-source; writes -o --output
yq: read; skip 1; changes -i --inplace --in-place
jq: read; runs --run-tests; skip 1; instead -f --from-file; table; flags -acCejMnrRsSP --arg --argjson --raw-output
    --compact-output --slurp --null-input --sort-keys --exit-status --tab --color-output --monochrome-output
    --raw-input --join-output; value --indent; reads -f --from-file -L --slurpfile --rawfile; changes -i --inplace
    --in-place
fd fdfind: list; skip 1; value -e -t -d -E -S -j --extension --type --max-depth --exclude --size --threads; words -x
    -X --exec --exec-batch; walk *
locate: list; skip 1; walk *
which whence type: none; table; flags *
whoami pwd id groups uname nproc arch seq true false echo yes: none; table; general whoami pwd uname nproc true false
    echo; flags *
hostname: none
hostname: none
test [ [[: none; table; flags *
sleep: none; table; flags *
printf: none; table; flags *; runs -v
tty uptime free pgrep cal logname getconf locale tput clear jobs dirs times: none; table; flags *
wait cd pushd popd return exit break continue shift: none; table; flags *
expr hash let set unset getopts umask ulimit read: none
history: both; strict; value -d -s -p; flags -c
ps: ps
printenv direnv: none
touch: write; value -d -t --date --time; reads -r --reference
mkdir mkfifo mknod: write; value -m --mode
rmdir unlink trash tee sponge: write
rm: write; walk -r -R --recursive
shred: write; value -n -s --iterations --size; reads --random-source
truncate: write; value -s --size; reads -r --reference
chmod chown chgrp chattr: write; reads --reference; walk -R --recursive
setfacl: write; value -m -x; reads --restore -M -X; walk -R --recursive
mktemp: write; value --suffix; writes -p --tmpdir
cp ln install mv ditto: copy; value -S --suffix --sparse -m --mode -o --owner -g --group; writes -t
    --target-directory; walk -r -R -a --recursive --archive
rsync: copy; value --exclude --include --bwlimit --chmod --filter -f; reads --exclude-from --include-from --files-from
    --password-file; writes --log-file --backup-dir --partial-dir --temp-dir -T; walk -r -a --recursive --archive;
    runs -e --rsh --rsync-path
scp: copy; value -c -l -P; reads -i; runs -S -o -J -F; walk -r
tar bsdtar gtar: tar; value --exclude --strip-components -b --owner --group --mode --mtime -H --format --wildcards
    --checkpoint --transform --xform; reads -T --files-from -X --exclude-from --add-file; writes -f --file -C
    --directory -g --listed-incremental --index-file --one-top-level --volno-file; walk --remove-files; runs -I -F
    --use-compress-program --to-command --checkpoint-action --rsh-command --info-script --new-volume-script
    --rmt-command
unzip: unpacks; value -P -x; writes -d; alone -l -p -t -v -Z -z
zip: archive; value -b -t -tt; walk -r; runs -TT --unzip-command
gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma lz4 compress uncompress ffmpeg convert magick pandoc: both; writes
    -o --output; walk -r --recursive
cpio pax: unpacks; any
split: pieces; value -b -l -n -a -C --bytes --lines --number --suffix-length; runs --filter
csplit: pieces; value -b -n --suffix-format --digits; writes -f --prefix
patch: value -p -F -V -D -g --strip --fuzz; reads -i --input; writes -o --output -r -d --reject-file --directory -B -Y
    -z --suffix --prefix --basename-prefix; unpacks
dd: pairs
openssl gpg gpg2 age: read; dash; value -r -u -pass -passin -passout -subj -days; reads -in -inkey -CA -CAkey -cert
    -key -config -kfile -rand -signkey -verify -sign -extfile; writes -out -keyout --output -o -writerand
sqlite3 sqlite: both; dash; opaque may run commands or use other files
curl: none; web; value -A -b -C -d -e -F -H -m -Q -r -t -u -U -w -x -X -y -Y -z -P --request --header --user
    --user-agent --max-time --retry --connect-timeout --proxy --url --range --referer --write-out --data-urlencode
    --data-raw --data --data-binary --data-ascii --json --form --form-string --cookie --resolve --limit-rate
    --url-query; reads -T --upload-file --cacert --capath --cert -E --key --netrc-file --variable --etag-compare;
    writes -o --output -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr --output-dir --hsts --etag-save
    --libcurl --alt-svc; runs -K --config
wget: none; web; value -t -T -w -U -A -R -D -I -X -l -Q --header --user --password --timeout --tries --level; reads -i
    --input-file --post-file --body-file --ca-certificate --certificate --load-cookies; writes -O --output-document -o
    --output-file -a --append-output -P --directory-prefix --save-cookies; runs -e --execute --use-askpass --config
ssh mosh sftp ftp rsh lftp: byname; opaque runs commands on another machine
docker podman nerdctl docker-compose lxc: byname; sub
docker_run docker_exec docker_build docker_compose docker_cp docker_create docker_start docker_buildx docker_commit
    docker_import docker_load docker_up: byname; opaque runs programs in a container, with folders of this machine
kubectl oc helm: byname; sub; reading
kubectl_exec kubectl_run kubectl_apply kubectl_create kubectl_debug kubectl_cp kubectl_attach kubectl_edit
    kubectl_delete kubectl_patch kubectl_replace: byname; opaque changes or runs something elsewhere
pytest py.test: reading; local; general pytest; flags -qvxsl --lf --ff --nf --sw --last-failed --failed-first
    --stepwise --quiet --verbose --exitfirst --co --collect-only --no-header --no-summary --no-cov --cov --showlocals;
    value -k -m -n -r --tb --maxfail --durations --capture --color --deselect --ignore --cov-report; writes --junitxml
    --junit-xml --log-file --debug --basetemp --report-log --html --json-report-file --csv;
ruff: reading; sub
ruff_check: reading; local; general ruff_check; flags -qvs --quiet --verbose --silent --diff --statistics --preview
    --no-cache --no-fix; value --select --ignore --extend-select --output-format --target-version --line-length
unittest: reading; local; general unittest; flags -vqfbc --verbose --quiet --failfast --buffer --locals; value -k
pyright basedpyright: reading; local; general pyright basedpyright; flags --outputjson --warnings --stats --verbose
    --level --version
tsc: reading; single; general tsc --noEmit; flags --noEmit --pretty --strict --skipLibCheck
mypy pylint flake8 eslint jest vitest mocha ninja tox nox gradle mvn dotnet rustc javac shellcheck hatch pre-commit
    bazel: reading
cargo: reading; sub
cargo_test cargo_build cargo_check: reading; local; general cargo_test cargo_build cargo_check; flags -vqr --release
    --all --workspace --lib --bins --tests --examples --doc --all-targets --all-features --no-default-features
    --verbose --quiet --locked --offline --frozen --no-run --no-fail-fast; value -p -j -F --package --bin --test
    --example --features --exclude
go: reading; dash; sub; runs -exec -toolexec -vettool --exec --toolexec --vettool
go_test go_build go_vet: reading; local; general go_test go_build go_vet; dash; flags -v -race -short -cover -failfast
    -json; value -run -skip -bench -count -timeout -tags -parallel; runs -exec -toolexec -vettool --exec --toolexec
    --vettool
make gmake: make; none; single; general make+1; flags -knsBi --silent --quiet --keep-going --dry-run; value -I -j -l
    -o -W --include-dir --old-file --assume-old --what-if --new-file --assume-new; reads -f --file --makefile; walk -C
    --directory; runs --eval -E
cmake: reading; sub; runs -P -C
npm pnpm yarn cnpm: reading; sub; writes --pack-destination --cache --logs-dir; runs --script-shell --git --editor
    --shell --node-options --userconfig --globalconfig --init-module --viewer --browser --only
npm_run npm_test: reading; single; general npm_test npm_run+1; flags -s --silent; writes --pack-destination --cache
    --logs-dir; runs --script-shell --git --editor --shell --node-options --userconfig --globalconfig --init-module
    --viewer --browser --only
npm_exec npm_x npm_dlx npm_execute: through; opaque fetches or runs a program
npm_explore npm_create npm_init: opaque fetches or runs a program
npm_config npm_c npm_set: opaque decides which programs run later
npm_pkg: opaque changes what programs run later
pip pip3: sub; runs --editor
pip_config: opaque decides what is installed later
npx bunx uvx pnpx pipx dlx: byname; through; opaque fetches a program and runs it; value -p --package --from --with
    --python -w --spec
uv poetry pdm rye hatch pipenv conda mamba micromamba mise bundle rbenv pyenv: sub
uv_run uv_exec uv_x: through; value -p --python --with --with-requirements --with-editable --extra --group --env-file
    --package --directory --project -n --name -e --env; runs -c --command --call
gcc: compile; value -x -arch -target -MT -MQ; writes -o -MF -Map; reads -include -imacros -T; runs -wrapper -specs
    -fplugin -B
node: script; flags -chv --version --help --check --test --test-only --watch --inspect --inspect-brk --no-warnings
    --enable-source-maps --expose-gc --preserve-symlinks --no-deprecation --trace-warnings --use-strict
    --experimental-strip-types --experimental-vm-modules; subs --max-old-space-size --stack-size --test-name-pattern
    --test-reporter --test-timeout --test-concurrency --run --inspect --inspect-brk; value --title --stack-trace-limit
    --inspect-port; alone --test --run --version -v --help -h
python: script; flags -bBdEIOPqRsSuvVx?h --version --help; value -W -X --check-hash-based-pycs; alone --version -V -VV
    --help -h
perl: script; flags --version --help -cnpsStTuUvVwWX; value -I; changes -i; alone --version -v --help
ruby: script; flags --version --help -wcvnp; value -I; alone --version -v --help
php lua Rscript julia osascript tclsh ghci scala groovy elixir erl ipython R tsx ts-node pwsh deno bun runghc
    runhaskell guile sbcl clojure swipl octave gjs qjs escript: script; flags --version --help -h -v --vanilla
    --no-save --quiet --silent --watch --hot -q -w -s; alone --version -v --help
sh bash zsh dash ksh mksh ash rbash fish: line
source .: script
sed gsed: sed; skip 1; instead -e -f --expression --file; table; flags -nEruszl --quiet --silent --regexp-extended
    --separate --null-data --posix --debug --sandbox; value -e -l --expression --line-length; reads -f --file; changes
    -i --in-place
awk gawk mawk nawk original-awk: read; skip 1; instead -f --file -E --exec; value -v -F --assign --field-separator;
    reads -f --file -E --exec; opaque runs a program that rules cannot read
vim vi nvim view ex emacs nano ed red pico gvim vimdiff code: opaque is an editor that can run commands
gdb lldb expect socat nc ncat netcat telnet m4 psql mysql wish jshell irb: opaque can run any code
goalwright goalwright-daemon: opaque talks to Goalwright itself
tmux screen hyperfine entr nix-shell dbus-run-session bwrap proot firejail xvfb-run perf rlwrap setpriv sg newgrp
    run-parts capsh cpulimit dtach abduco daemonize start-stop-daemon systemd-nspawn runcon chpst softlimit envdir
    setuidgid eatmydata torsocks proxychains proxychains4 tsocks doctl nsjail at batch systemd-run crontab: opaque
    runs other commands
enable shopt bind complete compgen: opaque changes what commands mean
alias unalias: none
export declare typeset local readonly: declares
mapfile readarray: declares; runs -C
eval: eval
trap: eval
parallel: opaque makes commands of what it reads
su runuser: line_of; value -c --command; opaque begins a shell of another user
script: line_of; write; value -c --command -E -o -T -B -I -O -m; writes --log-out --log-in --log-io --log-timing -O -I
    -B -T; opaque begins a shell
watch: wrap; joined; flags -dtbexgcp; value -n --interval -q --equexit
nohup builtin setsid unbuffer catchsegv fakeroot busybox toybox: wrap; table; flags -cfw --ctty --fork --wait
nice: wrap; table; value -n --adjustment
ionice: wrap; table; flags -t; value -c -n --class --classdata
stdbuf: wrap; table; value -i -o -e --input --output --error
timeout gtimeout: wrap; skip 1; table; flags -fv --preserve-status --foreground --verbose; value -s -k --signal
    --kill-after
command: wrap; table; flags -p; alone -v -V
exec: wrap; flags -cl; value -a
time: wrap; table; flags -pv; value -f --format; writes -o --output
ssh-agent: wrap; value -a -E -O -P -t
chrt: wrap; skip 1; value -T -P -D
taskset: wrap; skip 1
strace ltrace: wrap; value -e -p -s -u -E -a -I -O -S -P -n; writes -o --output
valgrind: wrap; writes --log-file
chroot: wrap; skip 1
unshare: wrap; value -S -G --setuid --setgid --map-user --map-group --map-users --map-groups --propagation --setgroups
    --monotonic --boottime --load-interp -l; runs -R -w --root --wd
setarch: wrap; machine
linux32 linux64 i386 i486 i586 i686 x86_64 uname26: wrap
choom: wrap; value -n --adjust -p --pid
logsave: wrap; skip 1
faketime datefudge: wrap; skip 1; value -f --exclude-monotonic
prlimit: wrap; value -p --pid -o --output
numactl: wrap; value -N -C -m -i -p -P --cpunodebind --physcpubind --membind --interleave --preferred --localalloc
    --preferred-many
nsenter: wrap; value -t -S -G --target
caffeinate: wrap; value -t -w
env: wrap; assigns; table; flags -i0v --ignore-environment --null; value -u --unset -a --argv0 -S --split-string; runs
    -C --chdir -S --split-string
sudo doas pkexec: wrap; assigns; value -u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir
    --chroot; runs -s -i -e --shell --login --edit
xargs: wrap; adds; table; flags -0rtxiel --null --no-run-if-empty --verbose --exit; value -n -P -L -s -d -E -I
    --max-args --max-procs --delimiter --replace; reads -a --arg-file
flock: wrap; lock; flags -nsxuoF --nonblock --shared --exclusive; value -w -E --timeout --wait --conflict-exit-code
cmake_-E: tool_of
find: find; table
git: git; flags -P --no-pager --no-optional-locks --no-replace-objects --literal-pathspecs --glob-pathspecs
    --noglob-pathspecs --icase-pathspecs --version --help --no-lazy-fetch; value -C -c --git-dir --config-env
    --namespace --super-prefix --attr-source; writes --work-tree; runs -c --exec-path --config-env --git-dir -p
    --paginate
git_status: list; seen; table; general general; flags -sbvz --short --branch --porcelain --long --show-stash
    --ahead-behind --ignored --no-renames --null; value -u --untracked-files
git_log git_whatchanged: revs; table; general general; flags -1234567890cgiqszEFPpu --oneline --graph --all --decorate
    --stat --shortstat --numstat --name-only --name-status --no-merges --merges --first-parent --reverse --follow
    --cherry-pick --left-right --abbrev-commit --no-color --color --branches --tags --remotes --date-order
    --topo-order --summary --cc --text --raw --no-patch --no-decorate --patch --patch-with-stat --no-ext-diff
    --no-textconv --word-diff --full-diff --ignore-case --all-match --invert-grep --no-walk --relative-date --parents
    --children --boundary --compact-summary --dirstat --no-renames; value -n -S -G -L --author --committer --grep
    --since --until --after --before --skip --max-count --format --pretty --date --diff-filter --unified -U
    --output-indicator-new --output-indicator-old --output-indicator-context --abbrev; writes --output; runs
    --ext-diff --textconv --show-signature -O
git_show: revs; table; general general; flags -cqszp --stat --oneline --name-only --name-status --no-patch --shortstat
    --numstat --no-color --color --abbrev-commit --summary --raw --patch --text --cc --no-ext-diff --no-textconv
    --word-diff; value --format --pretty --date --diff-filter --unified -U -S -G; writes --output; runs --ext-diff
    --textconv --show-signature -O
git_diff: revs; walks; table; general general; flags -bwqpuszR --cached --staged --stat --shortstat --numstat
    --name-only --name-status --no-color --color --ignore-all-space --ignore-space-change --ignore-blank-lines --check
    --exit-code --quiet --word-diff --no-ext-diff --no-textconv --summary --raw --patch --text --minimal --patience
    --histogram --merge-base --no-renames --compact-summary --no-prefix; value -S -G -U --unified --diff-filter
    --relative --output-indicator-new --src-prefix --dst-prefix; writes --output; runs --ext-diff --textconv -O
git_blame git_annotate: revs; table; general general; flags -bcefklnpstwMC --porcelain --line-porcelain --show-email
    --show-name --show-number --root; value -L --since --date --abbrev; reads --contents --ignore-revs-file -S
git_shortlog: revs; table; general general; flags -nsec --numbered --summary --email --all --no-merges; value -n -S
    --since --until --author --format --group; writes --output; runs -O
git_rev-parse: remote; table; general general; flags -q --abbrev-ref --short --show-toplevel --git-dir
    --is-inside-work-tree --verify --quiet --symbolic-full-name --show-prefix --show-cdup --all --branches --tags
    --remotes --is-bare-repository --absolute-git-dir --git-common-dir --symbolic; value --short --default
git_describe: revs; table; general general; flags --tags --all --always --long --contains --exact-match --first-parent
    --abbrev; value --match --exclude --candidates --dirty --broken
git_ls-files: list; table; general general; flags -cdmoiksutvz --cached --deleted --modified --others --ignored
    --stage --exclude-standard --full-name --error-unmatch --unmerged --deduplicate --eol; value -x --exclude; reads
    -X --exclude-from --exclude-per-directory
git_ls-tree: list; shows; general general; revs; flags -dlrtz --name-only --long --full-tree --full-name
git_merge-base git_rev-list: revs; table; general general; flags --count --all --no-merges --first-parent
    --is-ancestor --fork-point --octopus; value -n --max-count --since; writes --output
git_name-rev git_cherry git_range-diff git_diff-tree git_diff-index git_diff-files git_show-branch git_count-objects
    git_var git_version git_help git_verify-commit git_verify-tag: revs; shows; value -n -S -G --max-count --skip
    --since; writes --output; runs --ext-diff --textconv -O
git_show-ref git_for-each-ref: shows; value --sort --count --format
git_cat-file: shows; every --batch --batch-check --batch-command --batch-all-objects
git_check-ignore: list; shows; exact
git_ls-remote git_fetch-pack: remote; value --sort; runs --upload-pack --exec -u
git_grep: search; walks; skip 1; instead -e -f; table; flags -abcEFGhHiIlLnPpqvwWrz --cached --untracked --no-index
    --count --line-number --name-only --files-with-matches --files-without-match --ignore-case --word-regexp
    --extended-regexp --fixed-strings --perl-regexp --all-match --and --or --not --column --only-matching
    --show-function --heading --break --recurse-submodules; value -e -A -B -C -m --max-depth --threads; reads -f; runs
    --open-files-in-pager -O --ext-grep --textconv; walk *
git_branch: remote; flags -arlvvq --list --all --remotes --verbose --show-current --no-color --color --merged
    --no-merged --contains --no-contains --points-at --column --format; value --sort; alone -a -r -l -v -vv --list
    --all --remotes --verbose --show-current --contains --merged --no-merged
git_tag: remote; flags -ln --list --contains --points-at --merged --no-merged --column; value --sort --format; alone
    -l -n --list --contains --points-at; reads -F --file
git_remote: remote; flags -v --verbose; alone -v --verbose; subs get-url
git_stash: mutes; subs list show; value -m --message; every -a --all
git_worktree: mutes; subs list; write; second; exact; value -b -B --reason
git_bundle: write; second; exact
git_reflog: remote; subs show
git_notes git_submodule git_bisect: remote; subs status summary log list show; reads -F --file
git_config: remote; table; value --type; reads -f --file --blob
git_add git_stage: read; seen; flags -ApnvufiNe --all --update; reads --pathspec-from-file; every -f --force
git_rm git_clean git_mv: write; reads --pathspec-from-file
git_checkout git_restore: write; seen; branch; walks; value -b -B --orphan --conflict -s --source; reads
    --pathspec-from-file
git_switch git_pull git_revert git_prune git_fsck git_pack-refs git_repack git_gc git_update-ref git_symbolic-ref
    git_lfs git_maintenance git_merge: value -m -s -X -c -C -n; reads -F --file
git_fetch git_push git_send-pack: remote; value -o --depth --jobs -j; runs --upload-pack --exec --receive-pack
git_cherry-pick: value -m -s -X
git_rebase: value -s -X --onto -x --exec; words -x --exec; runs -i --interactive -x --exec
git_commit git_commit-tree: exact; value -m -C -c --message --author --date --fixup --squash --cleanup --trailer
    --reuse-message --reedit-message; reads -F --file -t --template --pathspec-from-file; read
git_apply git_am: read; exact; everywhere; alone --check --stat --numstat --summary
git_clone: clone; remote; value -b --branch -o --origin --depth -j --jobs --filter; reads --reference; writes
    --separate-git-dir; runs --upload-pack -u -c --config --template
git_init: write; exact; value -b --initial-branch --shared; writes --separate-git-dir; runs --template
git_archive: revs; whole; walks; value --format --remote; writes -o --output; reads --add-file --add-virtual-file;
    runs --exec --remote
git_format-patch: revs; value -n; writes -o --output-directory --output; reads --signature-file; every --stdout
git_fast-export git_mailsplit: revs; every *
git_checkout-index: read; write; exact; value --prefix; every -a --all --stdin
git_read-tree: revs; walks; value --prefix; writes --index-output
git_hash-object git_update-index: read; exact; every --stdin --stdin-paths -z; reads --cacheinfo
git_merge-file: read; write; exact
git_interpret-trailers git_fmt-merge-msg: read; write; exact; reads -F --file
git_reset git_merge-tree: read; write; seen
"""
