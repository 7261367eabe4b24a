// Scratch memory that an engine call takes once and gives back whole.
//
// An Arena is a bump allocator over one block of memory, aligned to cache lines: add up Arena::bytes() of what a call
// needs, reserve that, then take it piece by piece. No call allocates in its inner loops.
// An ArenaPool keeps the blocks of finished calls, so a second call of the same size touches no new pages and
// concurrent calls each have a block of their own.
#pragma once

#include <cstddef>

namespace smf {

class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes room for `bytes` and forgets what was taken. Contents are not initialised. Throws std::bad_alloc.
  void reserve(std::size_t bytes);
  // `count` floats on a 64-byte boundary; throws std::length_error beyond what was reserved.
  float* floats(std::size_t count);
  std::size_t capacity() const;
  // Takes everything from `position` on back; `position` was returned by used().
  std::size_t used() const;
  void rewind(std::size_t position);
  // What floats(count) takes, for adding up a reservation.
  static std::size_t bytes(std::size_t count);
  // `count` floats rounded up so that the slices of several threads, side by side, share no cache line.
  static std::size_t slice(std::size_t count);

 private:
  char* block_;
  std::size_t capacity_;
  std::size_t used_;
};

class ArenaPool {
 public:
  ArenaPool();
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  // An arena with at least `bytes` reserved; thread-safe. A kept block much larger than asked for is freed, so that one
  // huge photo does not hold memory for ever.
  Arena* acquire(std::size_t bytes);
  void release(Arena* arena);

 private:
  struct State;
  State* state_;
};

// Holds an arena of a pool for the length of a scope.
class ArenaLease {
 public:
  ArenaLease(ArenaPool& pool, std::size_t bytes);
  ~ArenaLease();
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;
  Arena& arena() const;

 private:
  ArenaPool& pool_;
  Arena* arena_;
};

// The pool shared by all calls that do not own one (the training operators).
ArenaPool& shared_arenas();

}  // namespace smf
