# keeper BIN_DIR DIR [-c NAME=VALUE]...
# Obeys `start PORT`, `stop` and `crash`, one per line, and answers each with one line.
# At the end of its input it stops the server and removes the folder.
bin=$1
dir=$2
shift 2
pid=

# end_with SIGNAL: the server's own words for how to stop (INT: in order, QUIT: at once).
end_with() {
    if [ -n "$pid" ]; then
        kill -s "$1" "$pid" 2>/dev/null
        wait "$pid"
        pid=
    fi
}

while read -r order port; do
    case $order in
    start)
        # Should the keeper itself be killed, the kernel tells the server to stop.
        setpriv --pdeathsig QUIT -- "$bin/postgres" -D "$dir/data" -p "$port" \
            -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
            -c max_connections=300 "$@" </dev/null >>"$dir/log" 2>&1 &
        pid=$!
        echo "$pid"
        ;;
    stop)
        end_with INT
        echo stopped
        ;;
    crash)
        end_with QUIT
        echo stopped
        ;;
    esac
done

end_with QUIT
rm -rf "$dir"
