// How an SA client asks its path source before SA.

#include <algorithm>
#include <utility>

#include "sa/sa_client.h"

namespace weft::sa {

/// Queries that the old source was asked for end: nobody would answer them.
void SaClient::set_path_source(PathSource* source, NamedPort name) {
  std::vector<QueryId> asked;
  for (auto& [id, query] : queries_) {
    if (query.question) {
      asked.push_back(id);
    }
  }
  for (const QueryId id : asked) {
    end_question(id, {.failure = QueryFailure::NotSent,
                      .reason = "the resolver that was asked has been taken away"});
  }
  path_source_ = source;
  name_ = std::move(name);
}

/// Only for one path: tables are SA's.
bool SaClient::is_for_source(const Query& query) const {
  return path_source_ != nullptr && query.options.asks_source &&
         query.request.method == wire::MadMethod::Get &&
         query.request.attribute == wire::SaAttribute::PathRecord;
}

std::optional<wire::PathRecord> SaClient::known_to_source(const Query& query, Instant now) {
  if (!is_for_source(query)) {
    return std::nullopt;
  }
  const auto wanted = wire::parse<wire::PathRecord>(query.request.record);
  return path_source_->known(wanted.value(), query.request.mask, now);
}

bool SaClient::ask_source(QueryId id, Query& query, Instant now) {
  if (!is_for_source(query)) {
    return false;
  }
  const auto wanted = wire::parse<wire::PathRecord>(query.request.record);
  query.question = path_source_->ask(
      name_, wanted.value(), query.request.mask,
      [this, id](const std::optional<wire::PathRecord>& path, Instant at) {
        take_from_source(id, path, at);
      },
      now);
  if (query.question) {
    query.end = Instant::never();  // the source's time is bounded
  }
  return query.question.has_value();
}

bool SaClient::is_asking_source(QueryId id) const {
  const auto found = queries_.find(id);
  return found != queries_.end() && found->second.question.has_value();
}

/// Without a path the query begins at SA, with all of its time, and so do those that wait for it.
void SaClient::take_from_source(QueryId id, const std::optional<wire::PathRecord>& path,
                                Instant now) {
  Query& query = queries_.at(id);
  query.question.reset();
  if (path) {
    ++counters_.local;
    const auto packed = wire::pack(*path);
    finish(id, RawRecords{
                   .data = {packed.begin(), packed.end()},
                     .record_bytes = packed.size()
    });
    return;
  }
  query.end = now + query.options.timeout;
  if (query.asks_for) {
    for (const auto& [user, handler] : path_queries_.at(*query.asks_for).users) {
      Query& waiting = queries_.at(user);
      waiting.end = now + waiting.options.timeout;
      ends_.emplace(waiting.end, user);
    }
  }
  if (!port_.can_query() || !send_query(id, query, now)) {
    finish(id, std::unexpected(QueryError{.failure = QueryFailure::NotSent,
                                          .reason = "subnet administration cannot be asked"}));
    return;
  }
  ends_.emplace(query.end, id);
}

void SaClient::end_question(QueryId id, QueryError error) {
  path_source_->cancel(*std::exchange(queries_.at(id).question, std::nullopt));
  finish(id, std::unexpected(std::move(error)));
}

}  // namespace weft::sa
