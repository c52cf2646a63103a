# Marks of zk for fish: its own events.
if status is-interactive; and not set -q __zk_nonce@UNLESS@
    set -gu __zk_nonce '@NONCE@'

    function __zk_preexec --on-event fish_preexec
        printf '\e]7177;%s;C;%s\a' $__zk_nonce (string escape --style=url -- $argv[1]) >/dev/tty 2>/dev/null
    end

    function __zk_postexec --on-event fish_postexec
        set -l code $status
        printf '\e]7177;%s;D;%d;%s\a' $__zk_nonce $code (string escape --style=url -- $PWD) >/dev/tty 2>/dev/null
    end

    function __zk_prompt --on-event fish_prompt
        printf '\e]7177;%s;W;%s\a' $__zk_nonce (string escape --style=url -- $PWD) >/dev/tty 2>/dev/null
        # @LOCAL
        printf '\e]7177;%s;R;1\a' $__zk_nonce >/dev/tty 2>/dev/null
        # @END
    end

    # @LOCAL: a shell on this machine has keys for zk, and tells when it waits for a line.
    set -g __zk_ask (status dirname)/ask

    function __zk_line
        set -l length (string length -- (commandline | string collect))
        test -n "$length"; or set length 0
        printf '\e]7177;%s;L;%d\a' $__zk_nonce $length >/dev/tty 2>/dev/null
    end

    # Tells the line itself, so that zk can compare it with the command that was approved.
    function __zk_show
        set -l text (commandline | string collect)
        printf '\e]7177;%s;V;%s\a' $__zk_nonce (string escape --style=url -- "$text" | string collect) >/dev/tty 2>/dev/null
    end

    # Tells the person's functions and abbreviations behind the words in zk's private file, one a line. A function's own
    # file is only named: to ask for its details would run the file, if it is not loaded.
    function __zk_define
        set -l all
        while read -l word
            set -l file
            for dir in $fish_function_path
                if test -e "$dir/$word.fish"
                    set file "$dir/$word.fish"
                    break
                end
            end
            if test -n "$file"; and not string match -q -- "$__fish_data_dir/*" $file
                set -a all "function $word  # may be that of the file $file"
            else
                set -l place (functions --details -- $word 2>/dev/null)
                if test -n "$place"; and not string match -q -- "$__fish_data_dir/*" $place; and not string match -q 'embedded:*' $place
                    set -a all (functions -- $word)
                end
            end
            set -a all (abbr --show | string match -r -- '^abbr .* -- '(string escape --style=regex -- $word)' .*')
        end <$__zk_ask 2>/dev/null
        set -l text (string join \n -- $all | string collect | string sub -l 16384)
        printf '\e]7177;%s;F;%s\a' $__zk_nonce (string escape --style=url -- "$text" | string collect) >/dev/tty 2>/dev/null
    end

    for mode in default insert visual replace replace_one
        bind -M $mode \e\[1007177u __zk_line
        bind -M $mode \e\[1007178u 'commandline -f repaint'
        bind -M $mode \e\[1007179u __zk_define
        bind -M $mode \e\[1007181u true
        bind -M $mode \e\[1007182u __zk_show
        # fish 4 decodes the keys: they are characters of a private area.
        bind -M $mode \UF5E49 __zk_line
        bind -M $mode \UF5E4A 'commandline -f repaint'
        bind -M $mode \UF5E4B __zk_define
        bind -M $mode \UF5E4D true
        bind -M $mode \UF5E4E __zk_show
    end
    # @END
end
