// A small thread pool: one set of sleeping workers for all calls.
//
// parallel(threads, tasks, body) runs body(task, worker) for every task in [0, tasks), on the caller and on up to
// threads - 1 idle workers, and returns when all are done. `worker` is in [0, threads) and unique among the threads
// inside one call: use it to index scratch memory. Read num_threads() once per call, as it may change meanwhile. Tasks
// are handed out one by one, so uneven tasks and busy cores balance themselves. Calls from several threads share the
// workers. Bodies must not throw and must not call parallel().
//
// Workers spin for some microseconds between the loops of one network, then sleep: they never compete with PyTorch's
// OpenMP threads while the engine is idle. A forked child starts a pool of its own.
#pragma once

namespace smf {

// Threads that a call may use, the caller included; by default the processors this process may run on.
int num_threads();
// At least 1; takes effect for the calls that start afterwards.
void set_num_threads(int count);

using TaskFunction = void (*)(const void* context, int task, int worker);
void run_tasks(int threads, int tasks, TaskFunction function, const void* context);

// `Body` is a lambda, whose type no other translation unit shares; so the instantiation is private to its kernel file.
template <class Body>
void parallel(int threads, int tasks, const Body& body) {
  run_tasks(
      threads, tasks,
      [](const void* context, int task, int worker) { (*static_cast<const Body*>(context))(task, worker); }, &body);
}

}  // namespace smf
