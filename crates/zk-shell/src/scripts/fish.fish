# Marks of zk for fish: its own events.
if status is-interactive; and not set -q __zk_nonce
    set -g __zk_nonce '@NONCE@'

    function __zk_preexec --on-event fish_preexec
        printf '\e]7177;%s;C;%s\a' $__zk_nonce (string escape --style=url -- $argv[1]) >/dev/tty 2>/dev/null
    end

    function __zk_postexec --on-event fish_postexec
        set -l code $status
        printf '\e]7177;%s;D;%d;%s\a' $__zk_nonce $code (string escape --style=url -- $PWD) >/dev/tty 2>/dev/null
    end

    function __zk_prompt --on-event fish_prompt
        printf '\e]7177;%s;W;%s\a' $__zk_nonce (string escape --style=url -- $PWD) >/dev/tty 2>/dev/null
        printf '\e]7177;%s;R;1\a' $__zk_nonce >/dev/tty 2>/dev/null
    end

    function __zk_line
        set -l length (string length -- (commandline | string collect))
        test -n "$length"; or set length 0
        printf '\e]7177;%s;L;%d\a' $__zk_nonce $length >/dev/tty 2>/dev/null
    end

    for mode in default insert visual
        bind -M $mode \e\[7177~ __zk_line
        bind -M $mode \e\[7178~ 'commandline -f repaint'
    end
end
