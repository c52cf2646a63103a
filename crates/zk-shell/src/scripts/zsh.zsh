# Marks of zk for zsh: hooks of their own beside those of the person. Each puts the others back where start files replaced
# them, and runs without trace.
if [[ -o interactive && -z ${__zk_nonce-}@UNLESS@ ]]; then
  # `set -a` exports every variable that is set.
  typeset -g +x __zk_nonce='@NONCE@'
  typeset -gi __zk_installed=0

  # Escapes the control characters and percent signs of $1 into REPLY.
  __zk_escape() {
    emulate -L zsh
    REPLY=${1//\%/%25}
    if [[ $REPLY == *[[:cntrl:]]* ]]; then
      local code char hex
      for code in {1..31} 127; do
        char=${(#)code}
        hex=${(l:2::0:)$(([##16]code))}
        REPLY=${REPLY//$char/%$hex}
      done
    fi
  }

  # Puts hooks back that are gone.
  __zk_mend() {
    emulate -L zsh
    typeset -ga precmd_functions preexec_functions zshaddhistory_functions
    typeset -g +x __zk_nonce __zk_installed __zk_ask __zk_buffer
    (( ${precmd_functions[(Ie)__zk_precmd]} )) || precmd_functions=(__zk_precmd $precmd_functions)
    (( ${preexec_functions[(Ie)__zk_preexec]} )) || preexec_functions+=(__zk_preexec)
    (( ${zshaddhistory_functions[(Ie)__zk_entered]} )) || zshaddhistory_functions+=(__zk_entered)
  }

  # Runs when a line was entered. Success leaves the line to the history.
  __zk_entered() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    __zk_mend
    return 0
  }

  __zk_preexec() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    local REPLY text=$1
    # The history may have dropped blanks, which the line still has.
    if [[ -o hist_reduce_blanks && -n ${__zk_buffer-} ]]; then
      if [[ "${__zk_buffer//[[:space:]]/}" == "${1//[[:space:]]/}" ]]; then
        text=$__zk_buffer
      else
        text=''
      fi
    fi
    if [[ -n $text ]]; then
      __zk_escape "$text"
      builtin printf '\e]7177;%s;C;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
    else
      __zk_escape "$3"
      builtin printf '\e]7177;%s;U;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
    fi
  }

  __zk_precmd() {
    { local code=$? REPLY; builtin setopt local_options no_xtrace no_all_export } 2>/dev/null
    __zk_mend
    __zk_escape "$PWD"
    builtin printf '\e]7177;%s;D;%d;%s\a' "$__zk_nonce" "$code" "$REPLY" >/dev/tty 2>/dev/null
    # @LOCAL
    if (( ! __zk_installed )); then
      __zk_installed=1
      __zk_keys
    fi
    # @END
    # zsh itself gives the next hook the exit code, and the ZERR trap none.
    return 0
  }

  # @LOCAL: a shell on this machine has keys for zk, and tells when it waits for a line.
  typeset -g __zk_ask=${${(%):-%x}:h}/ask

  __zk_line_init() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    __zk_mend
    [[ ${CONTEXT-start} == start ]] || return 0
    builtin printf '\e]7177;%s;R;1\a' "$__zk_nonce" >/dev/tty 2>/dev/null
  }

  __zk_line_finish() {
    { builtin setopt local_options no_xtrace no_all_export } 2>/dev/null
    typeset -g __zk_buffer=$PREBUFFER$BUFFER
  }

  __zk_line() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    builtin printf '\e]7177;%s;L;%d\a' "$__zk_nonce" $(( ${#PREBUFFER} + ${#BUFFER} )) >/dev/tty 2>/dev/null
  }

  __zk_redraw() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    zle .reset-prompt
  }

  # Inserts the next paste as it is, whatever the person's widgets make of pastes.
  __zk_paste() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    local text
    zle .bracketed-paste text
    LBUFFER+=${text#$'\e[200~'}
  }

  # Tells the line itself, so that zk can compare it with the command that was approved.
  __zk_show() {
    { builtin setopt local_options no_xtrace } 2>/dev/null
    local REPLY
    __zk_escape "$PREBUFFER$BUFFER"
    builtin printf '\e]7177;%s;V;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
  }

  # Tells the aliases and functions behind the words in zk's private file, one a line.
  __zk_define() {
    { emulate -L zsh; builtin setopt no_xtrace } 2>/dev/null
    local REPLY word all=''
    while IFS= read -r word; do
      all+=$(builtin alias -L -- "$word" 2>/dev/null)$'\n'
      all+=$(builtin functions -- "$word" 2>/dev/null)$'\n'
    done 2>/dev/null <"$__zk_ask"
    __zk_escape "${all[1,16384]}"
    builtin printf '\e]7177;%s;F;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
  }

  # After the start files of the person, so that their widgets and keymaps exist.
  __zk_keys() {
    emulate -L zsh
    # A function of zsh fails on its way, which is no error of the person's commands.
    trap - ZERR
    local map
    zle -N __zk_line
    zle -N __zk_redraw
    zle -N __zk_define
    zle -N __zk_paste
    zle -N __zk_show
    for map in emacs viins vicmd; do
      bindkey -M $map '\e[1007177u' __zk_line
      bindkey -M $map '\e[1007178u' __zk_redraw
      bindkey -M $map '\e[1007179u' __zk_define
      bindkey -M $map '\e[1007180u' __zk_redraw
      bindkey -M $map '\e[1007181u' __zk_paste
      bindkey -M $map '\e[1007182u' __zk_show
    done
    autoload -Uz add-zle-hook-widget
    add-zle-hook-widget line-init __zk_line_init
    add-zle-hook-widget line-finish __zk_line_finish
  }
  # @END

  __zk_mend
fi
