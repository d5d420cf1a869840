/* SPDX-License-Identifier: MIT
 *
 * libmicrohttpd with one thread: requests are answered one after the other, so nothing behind them needs a lock. A browser that is slow
 * to read holds up nobody, as answers are handed over whole.
 */
#include "web/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/random.h"
#include "web/assets.h"
#include "web/records.h"
#include "web/state.h"

/* A page asks for one thing at a time; a few of them may be open. */
enum { MOST_CONNECTIONS = 32, PATIENCE_S = 15, MOST_MEMORY = 16 * 1024 };

struct vb_web_server {
	struct MHD_Daemon *daemon;
	struct vb_web_state *state;
	struct vb_web_records *records;
	uint16_t port;
	char token[VB_WEB_TOKEN];
	char hosts[2][32];
};

/* What a request gets. `body` is malloc'ed, or an asset. */
struct answer {
	unsigned status;
	const char *type;
	const void *body;
	size_t length;
	bool is_ours;                      /* to be freed */
};

/* ---- questions ---- */

static bool is_host(const struct vb_web_server *server, const char *name)
{
	return name && (!strcmp(name, server->hosts[0]) || !strcmp(name, server->hosts[1]));
}

static bool is_origin(const struct vb_web_server *server, const char *origin)
{
	static const char scheme[] = "http://";

	return !origin || (!strncmp(origin, scheme, strlen(scheme)) && is_host(server, origin + strlen(scheme)));
}

/* Takes the same time whichever character is wrong. */
static bool is_token(const struct vb_web_server *server, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	unsigned char wrong = 0;

	if (!authorization || strncmp(authorization, scheme, strlen(scheme)) != 0 ||
	    strlen(authorization) != strlen(scheme) + VB_WEB_TOKEN - 1)
		return false;
	for (size_t i = 0; i < VB_WEB_TOKEN - 1; i++)
		wrong |= (unsigned char)(authorization[strlen(scheme) + i] ^ server->token[i]);
	return wrong == 0;
}

/* ---- answers ---- */

static struct answer say(unsigned status, const char *sentence)
{
	return (struct answer){ .status = status, .type = "text/plain; charset=utf-8", .body = sentence, .length = strlen(sentence) };
}

/* What `print` writes; it returns 0 or -errno. */
static struct answer answer_with(const char *type, int (*print)(void *context, FILE *out), void *context)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	int error = out ? print(context, out) : -ENOMEM;

	if (out && fclose(out) != 0 && error == 0)
		error = -ENOMEM;
	if (error == 0)
		return (struct answer){ MHD_HTTP_OK, type, text, length, true };
	free(text);
	return error == -ENOENT ? say(MHD_HTTP_NOT_FOUND, "There is nothing of that kind.\n") :
				  say(MHD_HTTP_SERVICE_UNAVAILABLE, "verbenad cannot be asked at the moment.\n");
}

static int print_state(void *context, FILE *out)
{
	struct vb_web_server *server = context;

	return vb_web_state_print(server->state, server->records, out);
}

static int print_resources(void *context, FILE *out)
{
	struct vb_web_server *server = context;

	return vb_web_state_print_resources(server->state, out);
}

static int draw_fabric(void *context, FILE *out)
{
	(void)context;
	return vb_web_state_draw_fabric(out);
}

static bool read_number(struct MHD_Connection *connection, const char *name, uint32_t *number)
{
	const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
	char *end;
	unsigned long value;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	*number = (uint32_t)value;
	return *end == '\0' && errno == 0 && value <= UINT32_MAX;
}

static struct answer draw_ladder(struct vb_web_server *server, struct MHD_Connection *connection)
{
	uint32_t pid, qpn;
	char *page, why[256];
	size_t length;

	if (!read_number(connection, "pid", &pid) || !read_number(connection, "qpn", &qpn))
		return say(MHD_HTTP_BAD_REQUEST, "pid=NUMBER&qpn=NUMBER\n");
	if (vb_web_records_draw(server->records, pid, qpn, &page, &length, why, sizeof(why)) == 0)
		return (struct answer){ MHD_HTTP_OK, "text/html; charset=utf-8", page, length, true };
	page = strdup(why);
	if (!page)
		return say(MHD_HTTP_SERVICE_UNAVAILABLE, "Out of memory.\n");
	return (struct answer){ MHD_HTTP_NOT_FOUND, "text/plain; charset=utf-8", page, strlen(page), true };
}

static const struct vb_web_asset *find_asset(const char *path)
{
	for (const struct vb_web_asset *asset = vb_web_assets; asset->path; asset++)
		if (!strcmp(asset->path, path))
			return asset;
	return NULL;
}

static struct answer route(struct vb_web_server *server, struct MHD_Connection *connection, const char *path)
{
	const struct vb_web_asset *asset = find_asset(path);
	static const char api[] = "/api/";

	if (asset)
		return (struct answer){ MHD_HTTP_OK, asset->type, asset->bytes, asset->length, false };
	if (strncmp(path, api, strlen(api)) != 0)
		return say(MHD_HTTP_NOT_FOUND, "There is no such page.\n");
	if (!is_token(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization")))
		return say(MHD_HTTP_FORBIDDEN, "Open the address that `verbena web` printed: the token in it is missing here.\n");
	if (!strcmp(path, "/api/state"))
		return answer_with("application/json", print_state, server);
	if (!strcmp(path, "/api/res"))
		return answer_with("application/json", print_resources, server);
	if (!strcmp(path, "/api/fabric"))
		return answer_with("image/svg+xml", draw_fabric, server);
	if (!strcmp(path, "/api/ladder"))
		return draw_ladder(server, connection);
	return say(MHD_HTTP_NOT_FOUND, "There is no such question.\n");
}

static enum MHD_Result reply(struct MHD_Connection *connection, const struct answer *answer)
{
	static const char *const headers[][2] = {
		{ "Cache-Control", "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Frame-Options", "DENY" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-src blob:; "
					     "frame-ancestors 'none'; base-uri 'none'; form-action 'none'" },
	};
	/* The library wants a pointer that may be written to, and does not write. */
	struct MHD_Response *response = MHD_create_response_from_buffer(answer->length, (void *)(uintptr_t)answer->body,
		answer->is_ours ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (!response) {
		if (answer->is_ours)
			free((void *)(uintptr_t)answer->body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path, const char *method,
			      const char *version, const char *upload, size_t *upload_length, void **seen)
{
	struct vb_web_server *server = context;
	struct answer answer;

	(void)version;
	(void)upload;
	/* The first call of a request is made when its headers are there; what is uploaded is let pass, and not kept. */
	if (!*seen) {
		*seen = server;
		return MHD_YES;
	}
	if (*upload_length > 0) {
		*upload_length = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		answer = say(MHD_HTTP_METHOD_NOT_ALLOWED, "This page can be looked at, no more.\n");
	else if (!is_host(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
		answer = say(MHD_HTTP_FORBIDDEN, "This is reached as 127.0.0.1 or localhost, and by no other name.\n");
	else if (!is_origin(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN)))
		answer = say(MHD_HTTP_FORBIDDEN, "Another page may not ask.\n");
	else
		answer = route(server, connection, path);
	return reply(connection, &answer);
}

/* ---- as a whole ---- */

static void choose_token(char token[VB_WEB_TOKEN])
{
	uint8_t bytes[(VB_WEB_TOKEN - 1) / 2];

	vb_random_bytes(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

int vb_web_server_start(struct vb_web_server **out, uint16_t port, struct vb_web_state *state, struct vb_web_records *records)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct vb_web_server *server = calloc(1, sizeof(*server));
	const union MHD_DaemonInfo *bound;
	int error;

	if (!server)
		return -ENOMEM;
	choose_token(server->token);
	server->state = state;
	server->records = records;
	errno = 0;
	server->daemon = MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, port, NULL, NULL, handle, server,
		MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MOST_MEMORY,
		MHD_OPTION_END);
	if (!server->daemon) {
		error = errno ? -errno : -EADDRINUSE;
		free(server);
		return error;
	}
	bound = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
	server->port = bound ? bound->port : port;
	snprintf(server->hosts[0], sizeof(server->hosts[0]), "127.0.0.1:%u", server->port);
	snprintf(server->hosts[1], sizeof(server->hosts[1]), "localhost:%u", server->port);
	*out = server;
	return 0;
}

void vb_web_server_stop(struct vb_web_server *server)
{
	MHD_stop_daemon(server->daemon);
	free(server);
}

uint16_t vb_web_server_port(const struct vb_web_server *server)
{
	return server->port;
}

const char *vb_web_server_token(const struct vb_web_server *server)
{
	return server->token;
}
